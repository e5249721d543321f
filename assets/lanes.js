// Side by side: recorded runs of every method on one prompt, on one clock. By passes first, which are the same on every machine;
// then by seconds, which are not. source.lanes(prompt) and source.recorded(prompt, method) promise the recordings.

const PASS = 320;                                               // ms that a pass stays on screen

function mountLanes(R, source) {
  const { say, tell, write } = R;
  const { worded, speak: spell } = speller(R);
  let prompt = null, lanes = [], clock = "passes", now = 0, playing = false, before = 0;

  const choices = make("span.lanes-prompts", { role: "group" }), told = make("p.lanes-told");
  const prompts = (source.prompts ?? []).map(name => {
    const button = worded(make("button.lanes-choice", { type: "button" }), "example_" + name);
    button.addEventListener("click", () => open(name));
    choices.append(button);
    return [name, button];
  });
  const play = make("button.lanes-play", { type: "button" });
  const scrub = worded(make("input.lanes-scrub", { type: "range", min: 0, max: 1000, value: 0, step: 1 }), "lanes_scrub", "aria-label");
  const clocks = switcher(["passes", "seconds"], name => { const share = now / end(); clock = name; now = share * end(); draw(); });
  const list = make("ol.lanes-list"), verdict = make("p.lanes-verdict", { role: "status", "aria-live": "polite" });
  const node = make("section.view-lanes", {},
    make("div.lanes-head", {}, choices, clocks.node), told, list,
    make("div.lanes-transport", {}, play, scrub), verdict);

  async function open(name) {
    prompt = name;
    const found = await source.lanes(name);
    if (prompt !== name) return;                                // somebody chose again meanwhile
    lanes = found.map(laneOf);
    list.replaceChildren(...lanes.map(lane => lane.node));
    for (const [lane, at] of partings() ?? []) lane.text.children[at].classList.add("is-parting");
    now = end();
    playing = false;
    draw();
  }

  /** One method's run: its text in two inks and what it has cost at the clock. */
  function laneOf(run) {
    const text = make("div.lanes-text", { tabindex: "0" }), numbers = make("dl.lanes-numbers"), name = make("button.lanes-name", { type: "button" });
    const joined = joiner();
    let seconds = 0, tokens = 0;
    const rounds = run.rounds.map((round, i) => {
      const spans = round.emit.map(([piece, , maker]) => {
        const span = make("span.by-" + (maker === "draft" ? "draft" : "target"));
        for (const [part, kind] of joined.add(piece)) span.append(kind ? make("i." + kind, {}, part) : part);
        text.append(span);
        return span;
      });
      seconds += round.ms / 1000;
      tokens += spans.length;
      return { spans, passes: i + 1, seconds, tokens };
    });
    const ids = run.rounds.flatMap(round => round.emit.map(emit => emit[1]));
    name.addEventListener("click", async () => { R.take(await source.recorded(prompt, run.method)); });
    return { run, text, numbers, name, rounds, ids, node: make("li.lanes-lane", {}, name, text, numbers) };
  }

  /** Where greedy texts part from the first lane's: [lane, place, gap of the target's two best logits there]. */
  function partings() {
    const [first, ...others] = lanes;
    if (!first || lanes.some(lane => lane.run.temperature !== 0)) return null;
    const gaps = first.run.rounds.flatMap(round => round.emit.map(emit => emit[3]));
    return others.map(lane => [lane, lane.ids.findIndex((id, i) => i < first.ids.length && id !== first.ids[i])])
      .filter(([, at]) => at >= 0).map(([lane, at]) => [lane, at, gaps[at]]);
  }

  const end = () => Math.max(1e-9, ...lanes.map(lane => lane.rounds.at(-1)?.[clock] ?? 0));

  function draw() {
    for (const [name, button] of prompts) button.setAttribute("aria-pressed", String(name === prompt));
    clocks.draw(clock, name => say("lanes_" + name));
    const over = now >= end() - 1e-9;
    play.textContent = (playing ? "❚❚ " : "▶\uFE0E ") + say(playing ? "pause" : over ? "replay" : "play");
    scrub.value = Math.round(1000 * now / end());
    const first = lanes[0]?.run;
    if (first) write(told, "lanes_told", { prompt: make("q", {}, first.prompt), machine: first.machine, date: first.started.slice(0, 10), tokens: first.tokens, dtype: first.dtype });
    else told.textContent = say("lanes_none");
    for (const lane of lanes) drawLane(lane);
    verdict.replaceChildren(...(over && lanes.length ? [...conclusion(), " ", ...sameness()] : []));
  }

  function drawLane({ run, text, numbers, name, rounds }) {
    let last = null;
    for (const round of rounds) {
      const there = round[clock] <= now + 1e-9;
      for (const span of round.spans) span.hidden = !there;
      if (there) last = round;
    }
    text.scrollTop = text.scrollHeight;
    name.textContent = say("method_name_" + run.method);
    name.title = tell("lanes_open", {});
    const facts = [["passes", last?.passes ?? 0], ["tokens", last?.tokens ?? 0], ["per_pass", last ? rate(last.tokens / last.passes) : "–"],
                   ["seconds", last ? last.seconds.toFixed(2) : "–"]];
    numbers.replaceChildren(...facts.map(([key, value]) => make("div", {}, make("dt", {}, say("lane_" + key)), make("dd", {}, String(value)))));
  }

  /** Who won, by passes and by seconds; a loss against plain decoding is called slower. */
  function conclusion() {
    const ended = lanes.map(lane => ({ method: lane.run.method, ...lane.rounds.at(-1) })), plain = ended.find(lane => lane.method === "plain");
    const best = key => ended.reduce((a, b) => (b.tokens / b[key] > a.tokens / a[key] ? b : a));
    const winner = best("passes"), out = fill(say("lanes_passes_won"), { method: winner.method, per_pass: rate(winner.tokens / winner.passes) });
    out.push(" ");
    const others = plain ? ended.filter(lane => lane !== plain) : [];
    for (const [i, lane] of others.entries()) {
      const ratio = (lane.tokens / lane.seconds) / (plain.tokens / plain.seconds);
      const told = ratio < 1 ? "slower" : lane.tokens === lane.passes ? "even" : "faster";
      out.push(...fill(say("lanes_" + told), { method: lane.method, ratio: ratio.toFixed(2) }), say(i < others.length - 1 ? "lanes_next" : "lanes_end"));
    }
    return out;
  }

  /** At temperature 0 all texts are the same; where they are not, the target's two best were nearly tied. */
  function sameness() {
    const parted = partings(), { dtype } = lanes[0].run;
    if (!parted) return [];
    if (!parted.length) return fill(say("lanes_same"), { n: lanes.length });
    const where = ([lane, at, gap]) => [...fill(say("lanes_parted"), { method: lane.run.method, at: at + 1, gap: gap.toFixed(3) }), " "];
    return [...parted.flatMap(where), ...fill(say("lanes_parted_why"), { dtype })];
  }

  // -- the clock
  function tick(time) {
    if (!playing || !node.isConnected || node.hidden) { playing = false; return draw(); }
    now = Math.min(end(), now + (time - before) / (clock === "passes" ? PASS : 1000));
    before = time;
    if (now >= end()) playing = false;
    draw();
    if (playing) requestAnimationFrame(tick);
  }

  play.addEventListener("click", () => {
    playing = !playing && lanes.length > 0;
    if (playing && now >= end()) now = 0;
    if (playing) requestAnimationFrame(time => { before = time; tick(time); });
    draw();
  });
  scrub.addEventListener("input", () => { playing = false; now = scrub.value / 1000 * end(); draw(); });

  return {
    name: "lanes", node,
    /** Opened for the first time: the first prompt. */
    shown() { if (!prompt && prompts.length) open(prompts[0][0]); },
    speak() { spell(); draw(); },
  };
}
