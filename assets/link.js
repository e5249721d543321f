// Links. The query string holds everything that is shown: the run's settings, the playhead, pins, the open view, the language,
// what is hidden. What a link says wrongly is left out, name by name; the rest holds.
//
//   prompt method k sampled markov confidence threshold temperature top_p seed max_new rule top_k min_p   the run
//   hash      what the run decided when the link was made
//   step pin open signs lang __theme       what is seen of it: beat, "round.slot" twice at most, view; __theme is Gradio's own
//   chapter depth                          of the guided path; how much is told
//   hide teach                             names of hidden controls; 1 = large type, no menus

Object.assign(specscope, (() => {
  const { settings, bounds } = specscope;
  const KEYS = [...settings.filter(name => name !== "language"),
                "hash", "step", "pin", "open", "chapter", "depth", "signs", "lang", "__theme", "hide", "teach"];
  // what can be hidden beside settings and views: the key of its words, and where it is
  const PAGE = { language: "language", examples: "examples", advanced: "advanced", run: "run", pause: "pause_engine", stop: "stop" };
  const VIEWER = { path: ["path", ".path"], depth: ["depth", ".view-depth"], steps: ["part_steps", ".player-steps"], speed: ["player_speed", ".player-speed"],
                   stops: ["player_stop", ".player-stop"], jumps: ["part_jumps", ".player-jumps"], keys: ["keys", ".player-step.keys"], log: ["log", ".tape-log"],
                   legend: ["part_legend", ".tape-legend"], keep: ["keep", ".keep"] };
  const MENUS = ["language", "advanced", "speed", "stops", "keys", "keep"];

  // -- reading
  const number = ([least, most, whole]) => text => {
    const value = /^-?\d+(\.\d+)?(e-?\d+)?$/i.test(text) ? Number(text) : NaN;
    return value >= least && value <= most && (!whole || Number.isInteger(value)) ? value : undefined;
  };
  const matching = pattern => text => pattern.test(text) ? text : undefined;
  const among = known => text => known.includes(text) ? text : undefined;
  const flag = text => ({ 0: false, 1: true })[text];
  const every = (read, list) => list.every(item => read(item) !== undefined) ? list : undefined;
  const READ = {
    prompt: text => text.trim() && [...text].length <= bounds.prompt ? text : undefined,
    ...Object.fromEntries(Object.entries(bounds.choices).map(([name, known]) => [name, among(known)])),
    ...Object.fromEntries(Object.entries(bounds.limits).map(([name, limits]) => [name, number(limits)])),
    ...Object.fromEntries(bounds.switches.map(name => [name, flag])),
    hash: matching(/^[0-9a-f]{16}$/), step: number([0, 1e6, true]), open: matching(/^[a-z]{1,20}$/),
    chapter: matching(/^[a-z]{1,20}$/), depth: among(["first", "working", "proof"]), signs: flag, teach: flag,
    pin: text => every(matching(/^\d{1,5}\.(own|\d{1,3})$/), text.split(",")),
    hide: text => every(matching(/^[a-z_]{1,20}$/), text.split(",")),
    lang: among(Object.keys(specscope.words)), __theme: among(["light", "dark", "system"]),
  };
  const link = {}, ignored = [];
  for (const [name, text] of new URLSearchParams(location.search)) {
    if (!(name in READ) || name in link) continue;
    const value = READ[name](text);
    if (value === undefined) ignored.push(name); else link[name] = value;
  }
  if (link.k > bounds.block && bounds.blocks.includes(link.method)) { delete link.k; ignored.push("k"); }

  // -- what it does to the page: Gradio's controls are filled by events (app/ui.py), hidden things are no tab stops either
  const asked = new Set(link.hide), hidden = new Set([...asked, ...link.teach ? MENUS : []]);
  const spot = name => VIEWER[name]?.[1] ?? (name in PAGE || settings.includes(name) ? "#" + name : null);
  const spots = [...hidden].map(spot).filter(Boolean);
  if (link.teach) spots.push("footer");
  const style = document.createElement("style");
  if (spots.length) style.textContent = `${spots.join()} { display: none !important; }`;
  document.head.append(style);
  if (link.teach) document.documentElement.classList.add("teach");

  const names = "prompt" in link || "method" in link;           // does it name a run?
  let controls = {}, due = names, filled = false, ready = false, served = !names, place = link;

  function restore(values) {
    const given = { prompt: specscope.mine() || undefined, ...link, language: specscope.language() };
    return settings.map((name, i) => given[name] ?? values[i]);
  }

  /** The controls' values, told after the link has filled them and whenever one changes. */
  function settle(values) {
    controls = Object.fromEntries(settings.map((name, i) => [name, values[i]]));
    document.getElementById("try").dataset.method = controls.method;
    filled = true;
    begin();
  }

  /** The linked run starts by itself, once, unless the visitor has begun something else. */
  function begin() {
    if (!due || !filled || !ready) return;
    due = false;
    document.getElementById("run").click();
  }
  specscope.hear(news => { if (news.state === "ready") { ready = true; begin(); } });
  for (const event of ["input", "click"])
    addEventListener(event, event => { if (event.isTrusted && event.target.closest?.("#try")) due = false; }, true);

  // -- the run in view against the link
  function settingsOf(header) {
    const { temperature, top_p, top_k, min_p, max_new } = header.sampling;
    const { method, rule, seed, prompt, knobs } = header;
    const own = { prompt: prompt?.text, method, rule, seed, temperature, top_p, top_k, min_p, max_new, ...knobs };
    return Object.fromEntries(settings.filter(name => own[name] != null).map(name => [name, own[name]]));
  }

  /** A recording that is the very run the link names serves in its place. */
  function sees(raw) {
    if (!due || !raw) return;
    const { run, end } = JSON.parse(raw);
    const equal = Object.entries(settingsOf(run)).every(([name, value]) => link[name] === value);
    served = equal && (!link.hash || link.hash === end?.hash);
    if (served) due = false;
  }

  /** What the link says about a run: hash, step, pins; step and pins once. Null if it is about another run. */
  function placeOf(header) {
    const named = ([name, value]) => !(name in link) || link[name] === value;
    if (header.badge === "measured" ? !names || !Object.entries(settingsOf(header)).every(named) : !served) return null;
    const { hash, step, pin = [] } = place, numbers = pin.map(text => text.split("."));
    place = { hash };
    return { hash, step, pins: numbers.map(([round, slot]) => ({ round: Number(round), slot: slot === "own" ? slot : Number(slot) })) };
  }

  // -- writing
  /** The address of what is shown. A setting that the run does not know is told as its control stands. */
  function address({ header, step, pins, signs, language, ...rest }, lesson = {}) {
    const pin = pins.map(pin => `${pin.round}.${pin.slot}`).join();
    const seen = { ...rest, step: header ? step : null, pin, signs: signs ? null : false, lang: language };
    const kept = { __theme: link.__theme, hide: link.hide?.join(), teach: link.teach || null, ...lesson };
    const all = { ...controls, ...header && settingsOf(header), ...seen, ...kept }, query = new URLSearchParams();
    for (const name of KEYS)
      if (all[name] != null && all[name] !== "") query.set(name, typeof all[name] === "boolean" ? Number(all[name]) : all[name]);
    return location.origin + location.pathname + "?" + String(query).replaceAll("%2C", ",");
  }

  const hideable = {
    page: Object.fromEntries([...settings.map(name => [name, name === "seed" ? "seed_label" : name]), ...Object.entries(PAGE)]),
    viewer: Object.fromEntries(Object.entries(VIEWER).map(([name, [words]]) => [name, words])),
  };
  const { open, chapter, depth, signs, teach = false } = link;
  return { restore, settle, link: { address, place: placeOf, sees, asked, hidden, hideable, ignored, names, open, chapter, depth, signs, teach } };
})());
