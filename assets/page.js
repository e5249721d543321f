// The page around the tape: the language of everything, typed text that is never lost, Ctrl+Enter, and the thin line between
// Gradio's components and code that knows nothing of Gradio. `specscope` was begun in the head with words and labels.

Object.assign(specscope, (() => {
  const { words, labels, recordings, experiment, bounds } = specscope;
  const listeners = [];                                       // told {language} or {state}
  const tell = news => { for (const listen of listeners) listen(news); };
  const keep = { get: key => { try { return localStorage.getItem("specscope-" + key); } catch { return null; } },
                 set: (key, value) => { try { localStorage.setItem("specscope-" + key, value); } catch { /* private window */ } } };
  let language = choose(), state = {}, ready = null, gone;  // ready: the engine's own word when it was; gone: the turn stopped

  function choose() {
    const wish = [new URLSearchParams(location.search).get("lang"), keep.get("language"), ...navigator.languages];
    return wish.filter(Boolean).map(tag => tag.slice(0, 2).toLowerCase()).find(tag => tag in words) ?? "en";
  }

  /** Updates for all native components, in the order of `labels`. */
  function relabel(wish) {
    if (wish in words && wish !== language) keep.set("language", language = wish);
    document.documentElement.lang = language;
    tell({ language });
    return labels[language].map(update => ({ __type__: "update", ...update }));
  }

  const fill = (template, values) => template.replace(/\{(\w+)\}/g, (_, name) => String(values[name] ?? ""));

  /** What the engine is doing, in words. */
  function sentence() {
    const off = state.off ? " " + fill(words[language].methods_off, state) : "";
    return fill(words[language]["state_" + state.state] ?? "", state) + off;
  }

  const busy = () => ["queue", "reading", "running", "paused", "comparing"].includes(state.state);
  // Whether Gradio would take a next run: it drops a click while it still cancels the last. over: the turn that has ended, of
  // which a last state may yet arrive.
  let free = true, over, show = () => {};
  const ended = () => { over = state.turn; free = true; show(); };

  function status(element, props, watch) {
    const line = element.querySelector(".status");
    const draw = show = () => {
      line.textContent = sentence();
      line.dataset.state = state.state ?? "idle";
      const [run, pause, stop] = ["run", "pause", "stop"].map(id => document.getElementById(id));
      if (run) run.disabled = busy() || !free;
      if (stop) stop.disabled = !busy();
      if (pause) {
        pause.disabled = !["reading", "running", "paused"].includes(state.state);
        pause.textContent = words[language][state.state === "paused" ? "continue_engine" : "pause_engine"];
      }
    };
    const take = () => {
      if (!props.value) return draw();
      const news = JSON.parse(props.value);
      if (news.state === "stopped") {
        gone = state.turn;
        setTimeout(ended, 3000);                                // should Gradio never say so
      } else if (news.turn !== undefined && news.turn === gone) return;   // was still under way when Stop was pressed
      state = news;
      if (busy() && state.turn !== over) free = false;
      if (state.state === "ready") ready = { name: state.name, off: state.off?.split(", ") ?? [] };
      tell({ state: state.state });
      const chosen = document.querySelector("#method input:checked");     // a method that this model lacks is no choice
      if (state.off?.split(", ").includes(chosen?.value)) document.querySelector("#method input[value=ngram]").click();
      draw();
    };
    listeners.push(news => news.language && draw());
    watch("value", take);
    take();
  }

  /** What the Pause button asks of the server: the engine stands still, or goes on. */
  const pause = () => JSON.stringify({ turn: state.turn, on: state.state !== "paused" });
  /** Asks an endpoint of this server, in its queue; what it refuses is an Error with the server's sentence. */
  async function call(name, values) {
    const { root, api_prefix } = window.gradio_config, url = `${root}${api_prefix}/call/${name}`;
    const joined = await fetch(url, { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify({ data: values }) });
    const { event_id } = await joined.json();
    const told = (await (await fetch(`${url}/${event_id}`)).text()).trim().split("\n").slice(-2);
    const [event, data] = told.map(line => line.slice(line.indexOf(":") + 2));
    if (event !== "complete") throw new Error(JSON.parse(data)?.error ?? "");
    return JSON.parse(data)[0];
  }
  const draws = ({ p, q, rule, n, seed }) => call("draws", [p, q, rule, n, seed, language]);
  const guesses = (...asked) => call("guesses", [...asked, language]);
  const engine = { methods: bounds.choices.method, state: () => ready,
                   hear: listen => listeners.push(news => news.state && listen()) };
  const lanes = prompt => call("lanes", [prompt]), recorded = (prompt, method) => call("recorded", [prompt, method]);

  /** Gradio's value as the source of a tape. */
  function source(props, watch) {
    const asked = { engine, draws, guesses, lanes, recorded, prompts: recordings };
    return { words, experiment, link: specscope.link, ...asked, connect(tape) {
      const pass = () => { specscope.link.sees(props.value); tape.take(props.value); };
      listeners.push(news => {
        if (news.language) tape.speak(news.language);
        if (news.state === "stopped" || news.state === "broken") tape.stop();
      });
      tape.speak(language);
      watch("value", pass);
      pass();
    } };
  }

  // What the visitor typed survives examples and reloads.
  const mine = () => keep.get("prompt") ?? "";
  addEventListener("input", event => { if (event.target.closest?.("#prompt")) keep.set("prompt", event.target.value); }, true);

  // A setting is shown only beside methods that listen to it; the style does the hiding.
  const listen = choice => { if (choice) document.getElementById("try").dataset.method = choice.value; };
  addEventListener("change", event => { if (event.target.closest?.("#method")) listen(event.target); }, true);
  new MutationObserver((_, observer) => {
    const choice = document.querySelector("#method input:checked");
    if (choice) observer.disconnect();
    listen(choice);
  }).observe(document.documentElement, { childList: true, subtree: true });

  addEventListener("keydown", event => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || !event.target.closest?.("#prompt")) return;
    event.preventDefault();
    document.getElementById("run").click();
  }, true);

  addEventListener("click", event => {
    if (!event.target.closest?.("#run")) return;
    const tape = document.querySelector(".tape-grid");
    if (tape && tape.getBoundingClientRect().bottom < 80) tape.scrollIntoView({ block: "center" });
  });

  return { relabel, status, pause, ended, source, mine, language: () => language, hear: listen => listeners.push(listen) };
})());
