// A run as a file and back: everything is made in the browser from the records it holds. What comes from a file is not trusted.

const LARGEST = 20e6;                                            // bytes of a file that can be opened

// ---- out ---------------------------------------------------------------------------------------------------------------

/** The very records, as engine/trace.py describes them. A run that broke off, or lost rounds on the way, has no end. */
const recordsOf = R => [R.header, ...R.rounds, ...R.end && R.rounds.at(-1)?.done ? [R.end] : []];
const linesOf = R => recordsOf(R).map(record => JSON.stringify(record) + "\n").join("");

/** One line per guess and per token of the target's own. `text` is JSON: a string, or a list of bytes for part of a character,
    so a cell never begins like a formula. p, q and chance decided; u is the draw; empty = there is none. */
const COLUMNS = {
  round: t => t.index + 1, slot: t => t.slot === "own" ? t.slot : t.slot + 1, maker: t => t.d ? "draft" : t.own.maker,
  verdict: t => t.v?.verdict, token_id: t => t.id, text: t => JSON.stringify(t.text), pass: t => t.d?.pass, depth: t => t.d?.depth,
  p: t => t.v ? t.v.p_tok : t.f?.p_top?.find(pair => pair[0] === t.id)?.[1], q: t => t.d?.q_tok, chance: t => t.v?.ratio,
  u: t => (t.v ?? t.f)?.u, p_rank: t => t.v?.p_rank, q_rank: t => t.d?.q_rank, p_entropy: t => (t.v ?? t.f)?.p_entropy,
  confidence: t => t.d?.confidence, bias: t => t.d?.bias,
};
const quoted = text => /[",\n\r]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;

function tableOf(R) {
  const lines = R.rounds.flatMap((round, index) => {
    const own = ownEmit(round), slots = [...round.draft.keys(), ...own ? ["own"] : []];
    return slots.map(slot => {
      const id = tokenAt(round, slot), judged = slot === "own" ? { f: round.final } : { d: round.draft[slot], v: round.verify[slot] };
      const token = { index, slot, id, own, text: round.texts[id], ...judged };
      return Object.values(COLUMNS).map(read => quoted(String(read(token) ?? ""))).join();
    });
  });
  return "\ufeff" + [Object.keys(COLUMNS).join(), ...lines].join("\r\n") + "\r\n";
}

/** A page of its own that plays the run from disk: this page's viewer, its styles, the words, the records, and no address. */
function pageOf(R) {
  const [style, script] = ["viewer-style", "viewer-script"].map(id => document.getElementById(id).textContent);
  const data = value => JSON.stringify(value).replaceAll("<", "\\u003c");
  const message = { run: R.header, rounds: R.rounds, end: R.end, final: true, ids: R.header.prompt?.ids };
  return `<!doctype html>
<html lang="${R.language}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta http-equiv="Content-Security-Policy"
  content="default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src blob:">
<title>SpecScope</title>
<style>body { margin: 0; font-family: system-ui, sans-serif; background: #ffffff; } .dark body { background: #0f172a; }
:root { color-scheme: light; } :root.dark { color-scheme: dark; }
body > * { max-width: 1080px; margin: 0 auto; padding: 24px; }
nav { padding-bottom: 0; text-align: right; } main { padding-top: 8px; }</style>
<style id="viewer-style">${style}</style>
</head>
<body>
<nav><select></select></nav>
<main class="tape"></main>
<script id="viewer-script">${script}<\/script>
<script>
const words = ${data(R.words)}, experiment = ${data(R.experiment)}, run = ${data(message)};
const night = matchMedia("(prefers-color-scheme: dark)"), choice = document.querySelector("select");
const dress = () => document.documentElement.classList.toggle("dark", night.matches);
for (const code in words) choice.append(new Option(words[code].own_name, code, false, code === "${R.language}"));
night.addEventListener("change", dress);
dress();
mountViewer(document.querySelector("main"), { words, experiment, connect(viewer) {
  const speak = () => {
    viewer.speak(document.documentElement.lang = choice.value);
    document.title = "SpecScope: " + run.run.prompt.text.slice(0, 60);
    choice.setAttribute("aria-label", words[choice.value].language);
  };
  choice.addEventListener("change", speak);
  speak();
  viewer.take(run);
} });
<\/script>
</body>
</html>
`;
}

function save(name, content, type) {
  const blob = content instanceof Blob ? content : new Blob([content], { type }), url = URL.createObjectURL(blob);
  make("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000);
}

// ---- in ----------------------------------------------------------------------------------------------------------------

/** The place in a value that does not fit a shape, null if it fits. A shape is a test or an object of shapes. */
function misfit(value, shape, path = []) {
  if (typeof shape === "function") return shape(value) ? null : path.join(".");
  if (!value || typeof value !== "object" || Array.isArray(value)) return path.join(".") || "{}";
  for (const [key, inner] of Object.entries(shape)) {
    const found = misfit(value[key], inner, [...path, key]);
    if (found !== null) return found;
  }
  return null;
}

const SHAPES = (() => {
  const text = v => typeof v === "string", real = Number.isFinite;
  const whole = v => Number.isInteger(v) && v >= 0, time = v => real(v) && v >= 0;
  const maybe = shape => v => v == null || misfit(v, shape) === null;
  const list = (shape, most = 512) => v => Array.isArray(v) && v.length <= most && v.every(one => misfit(one, shape) === null);
  const among = (...known) => v => known.includes(v);
  const table = test => v => misfit(v, {}) === null && Object.values(v).every(test);
  const law = list(v => Array.isArray(v) && v.length === 2 && whole(v[0]) && real(v[1]));
  const optional = (shape, ...names) => Object.fromEntries(names.map(name => [name, maybe(shape)]));
  const side = letter => ({ ...optional(law, `${letter}_top`, `${letter}_own_top`, `${letter}_base_top`),
    ...optional(real, ...["rest", "own_rest", "base_rest", "tok", "own_tok", "rank", "entropy"].map(name => `${letter}_${name}`)) });
  const speed = { tokens: whole, seconds: real, tokens_per_second: real };
  return {
    run: {
      schema: among(1), id: text, method: text, rule: text, lossless: among(true, false), badge: text,
      models: { target: { name: text, ...optional(text, "weights", "dtype", "device") }, draft: maybe(optional(text, "weights")) },
      sampling: { temperature: real }, knobs: maybe({ k: maybe(v => whole(v) && v <= 512) }),
      prompt: maybe({ text: maybe(text), ids: maybe(list(whole, 1e6)) }),
      sees: maybe({ inputs: list(text), taps: list(whole), layers: v => whole(v) && v <= 512, slots: maybe(v => whole(v) && v <= 512) }),
      ...optional(text, "machine", "started"),
    },
    round: {
      i: whole, t_draft: time, t_target: time, t_verify: time, t_other: time, t0: time, rows: whole,
      passes: maybe({ draft: whole, target: whole }), copied: maybe(list(whole)),
      draft: list({ slot: whole, token_id: whole, pass: maybe(whole), parent: maybe(whole), source: maybe(v => list(whole)(v) && v.length === 2), matched: maybe(whole), ...side("q"), ...optional(real, "confidence", "bias") }),
      verify: list({ slot: whole, verdict: among("kept", "rejected", "not_reached"), ratio: real, u: maybe(real), ...side("p") }),
      emit: list({ token_id: whole, maker: among("draft", "correction", "bonus", "plain"), slot: maybe(whole) }),
      final: maybe({ token_id: whole, u: maybe(real), ...side("p"), residual_top: maybe(law), residual_rest: maybe(real) }),
      texts: table(v => text(v) || list(whole)(v)), done: maybe(text), note: maybe(text),
      counts: { rounds: whole, passes: whole, tokens: whole, drafted: whole, tested: whole, accepted: whole,
                offered: list(whole), reached: list(whole), kept: list(whole) },
    },
    end: { hash: maybe(text), plain: maybe(speed), decoding: maybe({ tokens: whole, seconds: real }) },
  };
})();

/** A message for the viewer from a file's text. Throws {key, values}: what is wrong, as a sentence of the dictionary. */
function messageOf(text) {
  const wrong = (key, values = {}) => { throw { key, values }; };
  const message = { run: null, rounds: [], end: null, final: true };
  if (!text.trim()) wrong("open_empty");
  for (const [index, line] of text.trimEnd().split("\n").entries()) {
    const place = { line: index + 1 };
    let record;
    try { record = JSON.parse(line); } catch { wrong(index ? "open_line" : "open_head", place); }
    if (!index && (record?.type !== "run" || record.schema !== 1)) wrong("open_head");
    if (index && !["round", "end"].includes(record?.type) || message.end) wrong("open_line", place);
    const field = misfit(record, SHAPES[record.type]);
    if (field !== null) wrong("open_field", { ...place, field });
    if (record.type === "run") message.run = { ...record, badge: record.badge === "toy" ? "toy" : "recorded" };
    if (record.type === "end") message.end = record;
    if (record.type !== "round") continue;
    if (record.i !== message.rounds.length) wrong("open_order", { ...place, round: message.rounds.length + 1 });
    const { draft, verify, emit } = record, made = e => e.slot != null && e.slot < draft.length;
    const slots = draft.length === verify.length && [...draft, ...verify].every((entry, i) => entry.slot === i % draft.length);
    if (!slots || emit.some(e => (e.maker === "draft") !== made(e)))
      wrong("open_field", { ...place, field: "slot" });
    message.rounds.push(record);
  }
  if (!message.rounds.length) wrong("open_none");
  return message;
}

/** Reads a file and shows its run; what is on screen stays unless all is well. Gives the sentence about it. */
async function openFile(R, file) {
  try {
    if (file.size > LARGEST) throw { key: "open_large", values: { size: (file.size / 1e6).toFixed(1) } };
    R.open(messageOf(await file.text()));
    return { key: "opened", values: { name: file.name, rounds: R.rounds.length } };
  } catch (problem) {
    return problem.key ? problem : { key: "open_failed", values: {} };
  }
}
