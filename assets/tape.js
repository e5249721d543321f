// The tape: one run of speculative decoding, drawn round by round.
//
// mountTape(element, source) fills an empty element. source.words holds one dictionary per language, source.connect(tape)
// receives the three entrances: tape.take(message), tape.speak(language), tape.stop(). Nothing here knows who sends.
// All that moves is a fold over the rounds received so far and one playhead. Text of models and users is only ever set
// as textContent.

const GLYPHS = { kept: "✓", rejected: "✗", not_reached: "○", correction: "↩\uFE0E", bonus: "★", plain: "", waiting: "…", guess: "?" };
const PACE = { draft: 260, check: 620, verdict: 300, final: 460, rest: 900 };   // slow motion, ms
const TOP = 7;                                                                     // bars in the card

// ---- tokens as text ----------------------------------------------------------------------------------------------

const BLANKS = { " ": "␠", "\u3000": "␠", "\n": "⏎", "\t": "⇥", "\r": "␍", "\u00a0": "⍽" };
const hex = bytes => bytes.map(b => b.toString(16).toUpperCase().padStart(2, "0")).join(" ");

/** A token's piece as display parts: [text, kind] with kind "" | "space" (its sign is drawn by the style) | "blank" | "hex". */
function parts(piece) {
  if (Array.isArray(piece)) return [[hex(piece), "hex"]];
  if (piece === "") return [["∅", "blank"]];
  const found = [];
  for (const char of piece) {
    const hidden = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/u.test(char);
    const kind = BLANKS[char] === "␠" ? "space" : BLANKS[char] ? "blank" : hidden ? "hex" : "";
    const text = BLANKS[char] ?? (hidden ? "U+" + hex([char.codePointAt(0)]).padStart(4, "0") : char);
    const last = found.at(-1);
    if (last && last[1] === kind && !["hex", "space"].includes(kind)) last[0] += text; else found.push([text, kind]);
  }
  return found;
}

/** Turns pieces into running text: bytes wait until their character is whole, and only bytes that never form one stay hex. */
function joiner() {
  let open = [];
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });
  const length = first => first < 0x80 ? 1 : first >> 5 === 6 ? 2 : first >> 4 === 14 ? 3 : first >> 3 === 30 ? 4 : 0;
  function settle(flush) {
    const out = [];
    while (open.length) {
      const need = length(open[0]);
      if (need > open.length && open.slice(1).every(b => b >> 6 === 2) && !flush) break;
      try {
        out.push([decoder.decode(Uint8Array.from(need ? open.slice(0, need) : [0xff])), ""]);
        open = open.slice(need);
      } catch { out.push([hex(open.splice(0, 1)), "hex"]); }
    }
    return out;
  }
  return {
    add(piece) {
      if (!Array.isArray(piece)) return [...settle(true), [piece, ""]];
      open.push(...piece);
      return settle(false);
    },
    end: () => settle(true),
  };
}

// ---- small helpers -----------------------------------------------------------------------------------------------

/** make("div.name", {role: "row"}, child, ...) - children are nodes or text. */
function make(tag, attributes = {}, ...children) {
  const [name, ...classes] = tag.split(".");
  const node = document.createElement(name);
  if (classes.length) node.className = classes.join(" ");
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

const probability = x => x == null ? "–" : x === 0 ? "0" : x < 0.001 ? x.toExponential(0) : x.toFixed(3);
const milliseconds = x => x < 10 ? x.toFixed(1) : x.toFixed(0);
const rate = x => x < 10 ? x.toFixed(2) : x.toFixed(1);
const sum = list => list.reduce((a, b) => a + b, 0);
const elapsed = round => round.t_draft + round.t_target + round.t_verify + round.t_other;

/** Replaces {name} and {name|one|many} in a template by numbers or nodes: a list ready for append(). */
function fill(template, values) {
  const out = [];
  let last = 0;
  for (const match of template.matchAll(/\{(\w+)(?:\|([^|}]*)\|([^}]*))?\}/g)) {
    const value = values[match[1]];
    out.push(template.slice(last, match.index));
    out.push(value instanceof Node ? value : make("b", {}, String(value)));
    if (match[2] !== undefined) out.push(" " + (Number(value) === 1 ? match[2] : match[3]));
    last = match.index + match[0].length;
  }
  out.push(template.slice(last));
  return out;
}

// ---- a round as beats --------------------------------------------------------------------------------------------

/** What can be seen of a round, moment by moment: drafted slots, the sweep, verdicts one by one, the target's own token. */
function beatsOf(round, index) {
  const beats = [], drafted = round.draft.length;
  const tested = round.verify.filter(v => v.verdict !== "not_reached").length;
  const passes = [...new Set(round.draft.map(d => d.pass ?? 0))];
  const beat = (kind, shown, judged, ms) => beats.push({ round: index, kind, shown, judged, ms });
  for (const pass of passes)
    beat("draft", round.draft.filter(d => (d.pass ?? 0) <= pass).length, 0, round.t_draft / passes.length);
  beat("check", drafted, 0, round.t_target);
  for (let i = 1; i <= tested; i++) beat("verdict", drafted, i, round.t_verify / tested);
  beat("final", drafted, drafted, round.t_other + (tested ? 0 : round.t_verify));
  return beats;
}

/** Who wrote a slot's token and what became of it, at a beat. */
function fateOf(round, slot, beat) {
  if (slot >= beat.shown) return "empty";
  if (beat.kind === "check") return "checking";
  if (beat.kind === "final") return round.verify[slot].verdict;
  if (slot < beat.judged) return round.verify[slot].verdict;
  const lost = round.verify.slice(0, beat.judged).some(v => v.verdict === "rejected");
  return lost ? "not_reached" : "guess";
}

const ownEmit = round => round.emit.find(e => e.maker !== "draft");
const keptEmits = round => round.emit.filter(e => e.maker === "draft");

// ---- the component -----------------------------------------------------------------------------------------------

function mountTape(element, source) {
  const calm = matchMedia("(prefers-reduced-motion: reduce)");
  const S = { run: null, header: null, rounds: [], lines: [], spans: [], made: [], now: 0, end: null, final: false, beats: [], at: -1, playing: false, slow: true,
              held: false, language: "en", shown: null, pin: null, own: false, scale: 1, stat: null };
  const say = key => source.words[S.language][key];
  const tell = (key, values) => fill(say(key), values).map(piece => piece.textContent ?? piece).join("");
  const write = (node, key, values = {}) => node.replaceChildren(...fill(say(key), values));

  // -- skeleton: built once, never re-laid
  const spoken = [];                                          // [node, key, attribute?]: relabelled on a change of language
  const worded = (node, key, attribute) => (spoken.push([node, key, attribute]), node);
  const badge = make("span.tape-badge"), about = make("span.tape-about");
  const asked = make("p.tape-prompt"), written = worded(make("div.tape-text", { role: "region", tabindex: "0" }), "text", "aria-label");
  const strip = make("div.tape-strip", { "aria-hidden": "true" });
  const shares = make("p.tape-shares");
  const history = make("div.tape-history", { role: "rowgroup" });
  const stage = make("div.tape-stage", { role: "row" });
  const grid = worded(make("div.tape-grid", { role: "grid" }, history, make("div.tape-now", { role: "rowgroup" }, stage)), "tape", "aria-label");
  const play = make("button.tape-play", { type: "button" });
  const scrub = worded(make("input.tape-scrub", { type: "range", min: 0, max: 0, value: 0, step: 1 }), "scrub", "aria-label");
  const place = make("span.tape-place"), pace = make("span.tape-pace");
  const sentence = make("p.tape-sentence", { role: "status", "aria-live": "polite" });
  const stats = make("div.tape-stats"), definition = make("p.tape-definition", { id: "tape-definition" });
  const card = worded(make("section.tape-card"), "card", "aria-label");
  const legend = make("ul.tape-legend");
  const curves = mountCurves(() => source.words[S.language]);
  const number = make("span.tape-number", { role: "rowheader" }), clock = make("div.tape-clock", { role: "gridcell" });
  const slots = make("div.tape-slots", { role: "presentation" });
  stage.append(number, slots, clock);
  element.replaceChildren(
    make("header.tape-head", {}, badge, about),
    make("div.tape-top", {},
      make("div.tape-writing", {}, asked, written, strip, shares),
      make("div.tape-numbers", {}, stats, definition)),
    grid,
    make("div.tape-transport", {}, play, scrub, place, pace),
    sentence, legend, curves.node, card);

  const tiles = ["per_pass", "accepted", "speed", "plain"].map(key => {
    const value = make("span.tape-value"), unit = worded(make("span.tape-unit"), "stat_" + key);
    const tile = make("button.tape-stat", { type: "button", "aria-describedby": "tape-definition" }, value, unit);
    for (const event of ["pointerenter", "focus", "click"]) tile.addEventListener(event, () => { S.stat = key; define(); });
    stats.append(tile);
    return { key, value, tile };
  });
  for (const fate of ["kept", "rejected", "not_reached", "correction", "bonus"])
    legend.append(make("li.is-" + fate, {}, make("span.tape-glyph", { "aria-hidden": "true" }, GLYPHS[fate]),
      worded(make("b"), "fate_" + fate), worded(make("span"), "legend_" + fate)));
  legend.append(make("li.is-chance", {}, make("span.tape-gauge", { "aria-hidden": "true" }, make("i.tape-bar"), make("i.tape-dot")),
    worded(make("span"), "legend_chance")));

  // -- store
  function take(raw) {
    if (!raw) return;
    const message = typeof raw === "string" ? JSON.parse(raw) : raw;
    if (message.run.id !== S.run) reset(message.run);
    for (const round of message.rounds) if (round.i === S.rounds.length) append(round);   // repeats drop out, a gap waits
    if (message.end) S.end = message.end;
    if (message.final) S.final = true;
    scrub.max = Math.max(0, S.beats.length - 1);
    if (calm.matches) return go(S.beats.length - 1);
    if (S.at < 0 && S.beats.length) S.at = 0;                   // at once: do not keep a new reader waiting
    render();
    run();
  }

  function reset(header) {
    Object.assign(S, { run: header.id, header, rounds: [], lines: [], spans: [], made: [], now: 0, end: null,
                       final: false, beats: [], at: -1, playing: true,
                       slow: header.badge !== "measured", held: false, shown: null, pin: null, scale: 1, stat: null });
    history.replaceChildren();
    written.replaceChildren();
    const places = 1 + Math.max(0, header.knobs?.k ?? 0);
    slots.replaceChildren(...Array.from({ length: places }, (_, i) => slotCell(i === places - 1 ? "own" : i)));
    element.style.setProperty("--places", places);
    element.dataset.wide = places > 6;
    S.join = joiner();
    introduce();
  }

  function append(round) {
    const index = S.rounds.length;
    S.rounds.push(round);
    S.beats.push(...beatsOf(round, index));
    S.lines.push(lineOf(round, index));
    history.append(S.lines[index]);
    if (index && elapsed(round) > S.scale) S.scale = elapsed(round);
    element.style.setProperty("--scale", S.scale);
    S.lines[0].classList.toggle("is-over", elapsed(S.rounds[0]) > S.scale);   // reading the prompt may not fit
    const before = S.made.at(-1) ?? { all: 0, draft: 0 };      // tokens written so far, and those the drafter made
    S.made.push({ all: before.all + round.emit.length, draft: before.draft + keptEmits(round).length });
    S.spans.push(round.emit.map(emit => {
      const by = emit.maker === "draft" ? "draft" : "target";
      const slot = emit.maker === "draft" ? emit.slot : "own";
      const span = make("span.by-" + by, { "data-round": index, "data-slot": slot }, make("wbr"));   // lines break between tokens
      setDown(span, S.join.add(round.texts[emit.token_id] ?? ""));
      span.hidden = true;
      written.append(span);                                    // only: what is written never moves
      return span;
    }));
    if (round.done) finishText();
  }

  /** Running text: real line breaks, each with its sign, so that its maker's ink is seen. */
  function setDown(span, pieces) {
    for (const [text, kind] of pieces) {
      if (kind) span.append(make("i." + kind, {}, text));
      else span.append(...text.split(/(?<=\n)/).flatMap(line =>
        line.endsWith("\n") ? [line.slice(0, -1), make("i.blank", { "aria-hidden": "true" }, BLANKS["\n"]), "\n"] : [line]));
    }
  }

  /** Bytes that never became a character are shown as what they are. */
  function finishText() {
    if (written.lastElementChild) setDown(written.lastElementChild, S.join.end());
  }

  function stop() {
    if (S.final || !S.rounds.length) return;
    S.final = true;
    finishText();
    render();
  }

  // -- playhead
  let budget = 0, before = 0, ticking = false;
  function run() {
    if (ticking || !S.playing || S.held) return;
    ticking = true;
    before = performance.now();
    requestAnimationFrame(tick);
  }

  function tick(now) {
    ticking = false;
    if (!S.playing || S.held || !element.isConnected) return;
    budget += Math.min(250, now - before);
    before = now;
    let moved = false;
    while (S.at + 1 < S.beats.length && budget >= wait()) { budget -= wait(); S.at++; moved = true; }
    if (S.at + 1 >= S.beats.length) { budget = Math.min(budget, 40); if (S.final) S.playing = false; }
    if (moved || !S.playing) render();
    if (S.playing && (S.at + 1 < S.beats.length || !S.final)) run();
  }

  /** How long the present beat stays on screen: recorded time, or slow motion that quickens after the first rounds. */
  function wait() {
    if (S.at < 0) return 0;
    if (S.at === 0) return Math.min(S.beats[0].ms, PACE.draft / 2);
    const here = S.beats[S.at], turn = here.kind === "final";
    if (S.slow && calm.matches) return turn ? PACE.rest : 0;
    if (S.slow) return (PACE[here.kind] + (turn ? PACE.rest : 0)) * (here.round < 3 ? 1 : here.round < 8 ? 0.6 : 0.4);
    const behind = S.rounds.length - here.round;
    return behind > 20 ? 0 : here.ms / Math.max(1, behind - 1);
  }

  function go(at) {
    S.at = Math.max(-1, Math.min(at, S.beats.length - 1));
    budget = 0;
    render();
  }

  function toggle() {
    S.playing = !S.playing;
    S.held = false;
    if (S.playing && S.at >= S.beats.length - 1 && S.final) { S.slow = true; S.at = -1; }
    budget = 0;
    render();
    run();
  }

  play.addEventListener("click", toggle);
  scrub.addEventListener("input", () => { S.playing = false; go(Number(scrub.value)); });

  // -- drawing: everything below reads S and the playhead
  function render() {
    const beat = S.beats[S.at], round = beat && S.rounds[beat.round], now = beat ? beat.round : 0;
    const [from, to] = [Math.min(S.now, now), Math.min(Math.max(S.now, now), S.rounds.length - 1)];
    for (let i = from; i <= to; i++) {                          // only what changes between two places of the playhead
      S.lines[i].hidden = i >= now;
      for (const span of S.spans[i]) span.hidden = !isWritten(span, i, beat);
    }
    S.now = now;
    if (!S.reading) written.scrollTop = written.scrollHeight;
    if (S.follow !== false) grid.scrollTop = grid.scrollHeight;
    drawStage(round, beat);
    drawNumbers(beat);
    drawSentence(beat);
    drawTransport(beat);
    drawCurves(round, beat);
    rove();
    mark();
  }
  let touched = -Infinity;                                      // only a reader's own scrolling stops the following
  for (const event of ["wheel", "touchmove", "pointerdown", "keydown"])
    grid.addEventListener(event, () => { touched = performance.now(); }, { passive: true });
  grid.addEventListener("scroll", () => { if (performance.now() - touched < 800) S.follow = atEnd(grid); }, { passive: true });
  written.addEventListener("scroll", () => { S.reading = !atEnd(written); }, { passive: true });
  function atEnd(box) { return box.scrollHeight - box.scrollTop - box.clientHeight < 12; }

  function slotCell(slot) {
    return make(slot === "own" ? "div.tape-cell.is-own" : "div.tape-cell", { role: "gridcell", "data-slot": slot, tabindex: "-1" },
      make("span.tape-token"),
      make("span.tape-fate", {}, make("span.tape-glyph", { "aria-hidden": "true" }), make("span.tape-word")),
      make("span.tape-gauge", { "aria-hidden": "true" }, make("i.tape-bar"), make("i.tape-dot")),
      make("span.tape-odds"));
  }

  function lineOf(round, index) {
    const places = 1 + Math.max(round.draft.length, S.header.knobs?.k ?? 0);
    const cells = Array.from({ length: places - 1 }, (_, slot) => chip(round, index, slot));
    const line = make("div.tape-line", { role: "row" },
      make("span.tape-number", { role: "rowheader" }, String(index + 1)),
      make("div.tape-slots", { role: "presentation" }, ...cells, chip(round, index, "own")),
      clockOf(round, make("div.tape-clock", { role: "gridcell" }), false));
    line.hidden = true;
    return line;
  }

  function chip(round, index, slot) {
    const token = tokenAt(round, slot), fate = fateIn(round, slot);
    const cell = make("div.tape-chip.is-" + fate, { role: "gridcell", "data-slot": slot, tabindex: "-1" });
    if (token === null) return cell;
    cell.dataset.round = index;
    cell.setAttribute("aria-label", describe(index, slot, fate));
    cell.append(make("span.tape-glyph", { "aria-hidden": "true" }, GLYPHS[fate]), pieceNode(round, token));
    return cell;
  }

  function tokenAt(round, slot) {
    if (slot === "own") return ownEmit(round)?.token_id ?? null;
    return round.draft[slot]?.token_id ?? null;
  }

  function fateIn(round, slot) {
    if (slot === "own") return ownEmit(round)?.maker ?? "empty";
    return round.verify[slot]?.verdict ?? "empty";
  }

  function pieceNode(round, token) {
    const node = make("bdi.tape-piece");
    for (const [text, kind] of parts(round.texts[token] ?? "")) node.append(kind ? make("i." + kind, {}, text) : text);
    return node;
  }

  function drawStage(round, beat) {
    number.textContent = beat ? beat.round + 1 : "";
    stage.classList.toggle("is-checking", beat?.kind === "check");
    for (const cell of slots.children) {
      const slot = cell.dataset.slot === "own" ? "own" : Number(cell.dataset.slot);
      const fate = !round ? "empty" : slot !== "own" ? fateOf(round, slot, beat) : beat.kind === "final" ? fateIn(round, "own") : "empty";
      const key = [S.run, beat?.round, fate, S.language].join();
      if (cell.dataset.key !== key) drawCell(cell, round, beat, slot, fate, key);
    }
    if (!round) clock.replaceChildren();
    else if (clock.dataset.key !== [S.run, beat.round, S.language].join()) {
      clock.dataset.key = [S.run, beat.round, S.language].join();
      clockOf(round, clock, true);
    }
  }

  function drawCell(cell, round, beat, slot, fate, key) {
    cell.dataset.key = key;
    cell.className = "tape-cell is-" + fate + (slot === "own" ? " is-own" : "");
    const [token, verdict, gauge, odds] = cell.children, there = fate !== "empty" && tokenAt(round, slot) !== null;
    token.replaceChildren(...(there ? [pieceNode(round, tokenAt(round, slot))] : []));
    verdict.firstChild.textContent = there ? GLYPHS[fate] ?? "" : "";
    verdict.lastChild.textContent = say(there ? "fate_" + fate : slot === "own" ? "slot_own" : slot >= (round?.draft.length ?? Infinity) ? "slot_none" : "slot_guess");
    const judged = there && slot !== "own" && ["kept", "rejected", "not_reached"].includes(fate) ? round.verify[slot] : null;
    gauge.classList.toggle("is-off", !judged);
    gauge.style.setProperty("--chance", judged?.ratio ?? 0);
    gauge.style.setProperty("--draw", judged?.u ?? 0);
    gauge.classList.toggle("no-draw", judged?.u == null || S.header.rule === "match");
    odds.replaceChildren(...(judged ? fill(say(gauge.classList.contains("no-draw") ? "odds_chance" : "odds"), {
      chance: probability(judged.ratio), draw: probability(judged.u) }) : []));
    if (there) cell.dataset.round = beat.round; else delete cell.dataset.round;
    cell.setAttribute("aria-label", there ? describe(beat.round, slot, fate) : say("slot_empty"));
  }

  function describe(index, slot, fate) {
    const round = S.rounds[index], text = parts(round.texts[tokenAt(round, slot)] ?? "").map(part => part[0]).join("");
    const where = slot === "own" ? say("slot_own") : `${say("slot_guess")} ${slot + 1}`;
    return `${tell("round", { round: index + 1 })}, ${where}: ${text}, ${say("fate_" + fate)}`;
  }

  /** The round's time as one bar: drafting, checking (the target's pass and the verdicts), everything else. */
  function clockOf(round, node, wordy) {
    const pieces = [["draft", round.t_draft], ["verify", round.t_target + round.t_verify], ["other", round.t_other]];
    const bar = make("div.tape-ms", { "aria-hidden": "true" });
    for (const [kind, ms] of pieces) {
      const part = make("i.ms-" + kind);
      part.style.setProperty("--ms", ms);
      bar.append(part);
    }
    const text = make("span.tape-total", {}, milliseconds(elapsed(round)) + " ms");
    if (!wordy) { node.replaceChildren(bar, text); return node; }
    node.replaceChildren(bar, make("dl", {}, ...pieces.flatMap(([kind, ms]) =>
      [make("dt.ms-" + kind, {}, say("ms_" + kind)), make("dd", {}, milliseconds(ms))]),
      make("dt", {}, say("ms_total")), make("dd", {}, text)));
    return node;
  }

  function isWritten(span, index, beat) {
    if (!beat || index !== beat.round) return Boolean(beat) && index < beat.round;
    return beat.kind === "final" || (span.dataset.slot !== "own" && Number(span.dataset.slot) < beat.judged);
  }

  /** Counts after the last whole round at the playhead. */
  function doneRounds(beat) { return !beat ? 0 : beat.kind === "final" ? beat.round + 1 : beat.round; }

  function drawNumbers(beat) {
    const done = doneRounds(beat), [first, last] = [S.rounds[0], S.rounds[done - 1]], counts = last?.counts;
    const { all, draft: drafted } = S.made[done - 1] ?? { all: 0, draft: 0 };
    strip.style.setProperty("--drafted", all ? drafted / all : 0);
    shares.replaceChildren(...fill(say("shares"), { all, drafted, own: all - drafted }));
    const tokens = done && all - first.emit.length, seconds = done > 1 ? (last.t0 + elapsed(last) - elapsed(first)) / 1000 : 0;
    const plain = S.end?.plain, ended = plain && seconds && done === S.rounds.length;
    S.numbers = { counts, tokens, seconds, plain, ratio: ended ? tokens / seconds / plain.tokens_per_second : null };
    const values = {
      per_pass: counts ? rate(counts.tokens / counts.passes) : "–",
      accepted: counts ? `${counts.accepted} / ${counts.tested}` : "–",
      speed: seconds ? rate(tokens / seconds) : "–",
      plain: plain ? rate(plain.tokens_per_second) : "–",
    };
    for (const { key, value } of tiles) value.textContent = values[key];
    define();
  }

  function drawCurves(round, beat) {
    const knobs = S.header?.knobs ?? {}, counts = S.rounds[doneRounds(beat) - 1]?.counts;
    curves.show({ run: S.run, counts, round, beat, places: Math.max(1, knobs.k ?? 1), threshold: knobs.threshold ?? 0 });
  }

  function define() {
    for (const { key, tile } of tiles) tile.classList.toggle("is-told", S.stat === key);
    const { counts, tokens, seconds, plain, ratio } = S.numbers ?? {};
    if (S.stat && !counts) return write(definition, "define_nothing");
    if (S.stat === "per_pass") return write(definition, "define_per_pass", counts);
    if (S.stat === "accepted") return write(definition, "define_accepted", counts);
    if (S.stat === "speed") return write(definition, "define_speed", { tokens, seconds: seconds.toFixed(2) });
    if (S.stat === "plain" && plain)
      return write(definition, "define_plain", { tokens: plain.tokens, seconds: plain.seconds.toFixed(2) });
    if (S.stat === "plain") return write(definition, S.final ? "define_no_plain" : "define_plain_later");
    if (ratio) return write(definition, ratio >= 1 ? "faster" : "slower", { ratio: ratio.toFixed(2) });
    write(definition, "define_hint");
  }
  stats.addEventListener("pointerleave", () => { S.stat = null; define(); });
  stats.addEventListener("focusout", () => { S.stat = null; define(); });

  function drawSentence(beat) {
    const index = doneRounds(beat) - 1, key = [S.run, index, S.language].join();
    if (sentence.dataset.key === key) return;
    sentence.dataset.key = key;
    if (index < 0) return write(sentence, "sentence_start");
    const round = S.rounds[index], own = ownEmit(round), kept = keptEmits(round).length;
    const refused = round.verify.find(v => v.verdict === "rejected");
    const token = id => make("code", {}, pieceNode(round, id));
    const values = { round: index + 1, drafted: round.draft.length, kept, tokens: round.emit.length, rows: round.rows };
    if (own) values.own = token(own.token_id);
    if (refused) {
      values.refused = token(round.draft[refused.slot].token_id);
      Object.assign(values, { chance: probability(refused.ratio), draw: probability(refused.u) });
    }
    const ending = [round.draft.length || !round.note ? null : "note_" + round.note, round.done && "done_" + round.done];
    const what = !round.draft.length ? (index === 0 ? "sentence_prompt" : "sentence_plain")
      : !own ? "sentence_ended" : refused ? (S.header.rule === "match" || refused.u == null ? "sentence_differs" : "sentence_rejected") : "sentence_all";
    sentence.replaceChildren(...fill(say(what), values), ...ending.filter(Boolean).map(key => " " + say(key)));
  }

  function drawTransport(beat) {
    const label = say(S.playing ? "pause" : S.final && S.at >= S.beats.length - 1 ? "replay" : "play");
    play.textContent = (S.playing ? "❚❚" : "▶\uFE0E") + " " + label;
    play.classList.toggle("is-playing", S.playing);
    scrub.value = Math.max(0, S.at);
    scrub.style.setProperty("--done", S.beats.length > 1 ? Math.max(0, S.at) / (S.beats.length - 1) : 0);
    const values = { round: beat ? beat.round + 1 : 0, rounds: S.rounds.length };
    write(place, S.final ? "place" : "place_open", values);
    write(pace, S.held ? "pace_held" : S.slow ? "pace_slow" : "pace_live");
    scrub.setAttribute("aria-valuetext", place.textContent + (beat ? ", " + say("beat_" + beat.kind) : ""));
  }

  function introduce() {
    const header = S.header;
    if (!header) return;
    badge.className = "tape-badge is-" + header.badge;
    write(badge, "badge_" + header.badge, { machine: header.machine ?? "?", date: (header.started ?? "").slice(0, 10) });
    const { target, draft } = header.models, { sampling } = header;
    const knobs = Object.entries(header.knobs ?? {}).map(([name, value]) =>
      typeof value === "boolean" ? say(`knob_${name}_${value ? "on" : "off"}`) : name === "threshold" && !value ? null : name + " " + value);
    const facts = [say("method_name_" + header.method) ?? header.method, target.name, target.weights, draft?.weights,
      target.dtype, target.device, ...knobs, "T " + sampling.temperature, say("seed") + " " + (header.seed ?? sampling.seed),
      say("rule_name_" + header.rule) ?? header.rule, say(header.lossless ? "lossless" : "lossy")];
    about.replaceChildren(...facts.filter(Boolean).map(fact => make("span", {}, String(fact))));
    asked.replaceChildren(make("b", {}, say("asked")), " ", make("bdi", {}, header.prompt?.text ?? ""));
  }

  // -- pointing: hover shows, click keeps, Esc lets go
  const cellOf = target => target.closest?.("[data-round][data-slot]");
  const refOf = cell => ({ round: Number(cell.dataset.round), slot: cell.dataset.slot === "own" ? "own" : Number(cell.dataset.slot) });
  const same = (a, b) => a && b && a.round === b.round && a.slot === b.slot;

  function hold(on) {
    if (S.held === on) return;
    S.held = on;
    drawTransport(S.beats[S.at]);
    run();
  }

  function show(ref) {
    if (same(S.shown, ref)) return;
    S.shown = ref;
    drawCard();
    mark();
  }

  for (const area of [grid, written]) {
    area.addEventListener("pointerover", event => {
      const cell = event.pointerType === "mouse" && cellOf(event.target);
      if (cell) { hold(true); show(refOf(cell)); }
    });
    area.addEventListener("pointerout", event => {
      if (event.pointerType !== "mouse" || cellOf(event.relatedTarget ?? area)) return;
      hold(false);
      if (S.pin) show(S.pin);
    });
    area.addEventListener("click", event => { const cell = cellOf(event.target); if (cell) pin(refOf(cell)); });
  }
  grid.addEventListener("focusin", event => {
    const cell = cellOf(event.target);
    if (!cell) return;
    if (cell.matches(":focus-visible")) hold(true);
    show(refOf(cell));
    S.home = cell;
    rove();
  });
  grid.addEventListener("focusout", event => { if (!grid.contains(event.relatedTarget)) hold(false); });

  function pin(ref) {
    S.pin = same(S.pin, ref) ? null : ref;
    S.shown = null;
    show(ref);
  }

  document.addEventListener("keydown", event => {
    if (event.key !== "Escape" || !S.pin) return;
    S.pin = null;
    drawCard();
    mark();
  });

  /** Marks the token that the card tells about, wherever it is drawn. */
  function mark() {
    for (const node of element.querySelectorAll(".is-shown, .is-pinned")) node.classList.remove("is-shown", "is-pinned");
    for (const [ref, name] of [[S.shown, "is-shown"], [S.pin, "is-pinned"]])
      if (ref) for (const node of element.querySelectorAll(`[data-round="${ref.round}"][data-slot="${ref.slot}"]`)) node.classList.add(name);
  }

  // -- keyboard: one tab stop, arrows inside
  const rows = () => [...S.lines, stage].filter(row => !row.hidden)
    .map(row => [...row.querySelectorAll("[data-round]")]).filter(cells => cells.length);

  const isThere = cell => cell?.isConnected && cell.dataset.round && !cell.closest("[hidden]");

  function rove() {
    const there = isThere(S.home) ? S.home : [stage, S.lines[S.now - 1]].map(row => row?.querySelector("[data-round]")).find(Boolean);
    for (const cell of grid.querySelectorAll("[tabindex='0']")) if (cell !== there) cell.tabIndex = -1;
    if (there) there.tabIndex = 0;
  }

  grid.addEventListener("keydown", event => {
    const cell = cellOf(event.target), all = rows(), at = all.findIndex(cells => cells.includes(cell));
    if (at < 0 || event.ctrlKey || event.metaKey || event.altKey) return;
    const row = all[at], column = row.indexOf(cell), flat = all.flat(), along = flat.indexOf(cell);
    const next = { ArrowLeft: flat[along - 1], ArrowRight: flat[along + 1], Home: row[0], End: row.at(-1),
                   ArrowUp: all[at - 1]?.[Math.min(column, all[at - 1].length - 1)],
                   ArrowDown: all[at + 1]?.[Math.min(column, all[at + 1].length - 1)] };
    if (event.key === "Enter" || event.key === " ") { event.preventDefault(); return pin(refOf(cell)); }
    if (!(event.key in next)) return;
    event.preventDefault();
    const goal = next[event.key];
    if (!goal) return;
    goal.focus({ preventScroll: true });
    reveal(goal);
  });

  function reveal(cell) {
    const line = cell.closest(".tape-line");
    if (!line) return;
    const top = line.offsetTop, room = grid.clientHeight - stage.offsetHeight;
    if (top < grid.scrollTop) grid.scrollTop = top;
    if (top + line.offsetHeight > grid.scrollTop + room) grid.scrollTop = top + line.offsetHeight - room;
  }

  // -- the card: the numbers of one token, and both laws as mirrored bars
  function drawCard() {
    const ref = S.shown, round = ref && S.rounds[ref.round];
    if (!round) return card.replaceChildren(make("p.tape-hint", {}, say("card_hint")));
    const token = tokenAt(round, ref.slot), fate = fateIn(round, ref.slot);
    const title = make("h3.tape-title.is-" + fate, {}, make("span.tape-token", {}, pieceNode(round, token)),
      make("span.tape-fate", {}, make("span.tape-glyph", { "aria-hidden": "true" }, GLYPHS[fate]), say("fate_" + fate)),
      make("small", {}, `${tell("round", { round: ref.round + 1 })} · id ${token}` + (same(S.pin, ref) ? " · " + say("pinned") : "")));
    card.replaceChildren(title, ref.slot === "own" ? ownFacts(round) : draftFacts(round, ref.slot),
      make("div.tape-laws", {}, ...lawsOf(round, ref.slot, token)));
  }

  const facts = list => make("dl.tape-facts", {}, ...list.map(([key, value]) =>
    make("div", {}, make("dt", {}, say("fact_" + key)), make("dd", {}, value))));

  function draftFacts(round, slot) {
    const d = round.draft[slot], v = round.verify[slot];
    const heads = [d.confidence != null && ["confidence", probability(d.confidence)], d.bias != null && ["bias", (d.bias < 0 ? "−" : "+") + Math.abs(d.bias).toFixed(2)]];
    return facts([["p", probability(v.p_tok)], ["q", probability(d.q_tok)], ["ratio", probability(v.ratio)], ["u", probability(v.u)],
      ["p_rank", v.p_rank ?? "–"], ["q_rank", d.q_rank ?? "–"], ["entropy", v.p_entropy == null ? "–" : v.p_entropy.toFixed(2)],
      ...heads.filter(Boolean)]);
  }

  function ownFacts(round) {
    const f = round.final ?? {}, token = ownEmit(round).token_id;
    const chance = list => list ? probability(list.find(([id]) => id === token)?.[1]) : "–";
    return facts([["p", chance(f.p_top)], ["left", chance(f.residual_top)], ["u", probability(f.u)],
      ["entropy", f.p_entropy == null ? "–" : f.p_entropy.toFixed(2)]]);
  }

  function lawsOf(round, slot, token) {
    if (slot === "own") {
      const f = round.final ?? {}, sides = { left: "law_residual", right: "law_p" };
      return [lawOf(round, token, "law_decides", sides, f.residual_top, f.residual_rest, f.p_top, f.p_rest),
              lawOf(round, token, "law_own", { left: null, right: "law_p" }, null, null, f.p_own_top, f.p_own_rest)];
    }
    const d = round.draft[slot], v = round.verify[slot], sides = { left: "law_q", right: "law_p" };
    return [lawOf(round, token, "law_decides", sides, d.q_top, d.q_rest, v.p_top, v.p_rest),
            lawOf(round, token, "law_own", sides, d.q_own_top, d.q_own_rest, v.p_own_top, v.p_own_rest)];
  }

  function lawOf(round, token, title, sides, left, leftRest, right, rightRest) {
    const chances = list => new Map(list ?? []), l = chances(left), r = chances(right);
    const ids = [...new Set([...l.keys(), ...r.keys()])].sort((a, b) => Math.max(l.get(b) ?? 0, r.get(b) ?? 0) - Math.max(l.get(a) ?? 0, r.get(a) ?? 0));
    const shown = ids.slice(0, TOP);
    if (ids.includes(token) && !shown.includes(token)) shown[TOP - 1] = token;
    const rest = (list, whole, known) => list ? Math.max(0, known + sum([...whole].filter(([id]) => !shown.includes(id)).map(pair => pair[1]))) : null;
    const line = (name, a, b, here) => make(here ? "tr.is-here" : "tr", {}, side(a, "left"), make("th", { scope: "row" }, name), side(b, "right"));
    const body = shown.map(id => line(pieceNode(round, id), l.get(id) ?? (left ? 0 : null), r.get(id) ?? (right ? 0 : null), id === token));
    while (body.length < TOP) body.push(line("\u00a0", null, null, false));
    body.push(line(say("law_rest"), rest(left, l, leftRest ?? 0), rest(right, r, rightRest ?? 0), false));
    const head = key => make("th", { scope: "col" }, key && (left || key !== sides.left) ? say(key) : "");
    return make("table.tape-law", {}, make("caption", {}, say(title)),
      make("thead", {}, make("tr", {}, head(sides.left), make("td"), head(sides.right))), make("tbody", {}, ...body));
  }

  function side(value, where) {
    const cell = make("td.at-" + where);
    if (value == null) return cell;
    cell.style.setProperty("--size", value);
    cell.append(make("i", { "aria-hidden": "true" }), make("span", {}, probability(value)));
    return cell;
  }

  // -- language
  function speak(language) {
    S.language = source.words[language] ? language : "en";
    element.lang = S.language;
    for (const [node, key, attribute] of spoken) attribute ? node.setAttribute(attribute, say(key)) : node.textContent = say(key);
    introduce();
    drawCard();
    for (const [i, line] of S.lines.entries())
      for (const cell of line.querySelectorAll("[data-round]")) {
        const { slot } = refOf(cell);
        cell.setAttribute("aria-label", describe(i, slot, fateIn(S.rounds[i], slot)));
      }
    render();
  }

  new ResizeObserver(() => grid.style.setProperty("--stage", stage.offsetHeight + "px")).observe(stage);
  speak(S.language);
  source.connect({ take, speak, stop });
}
