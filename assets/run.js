// The run in view: the rounds received so far, one playhead, one selection, two pins. Every view is a fold over these.
//
// openRun(words) knows nothing of the page. A view is an object whose hooks are called, each if it is there:
// begin() a new run, add(round, index) one more round, arrive() a message was taken in, draw() the playhead moved,
// point() the selection changed, signs() blanks got or lost their signs, speak().

// ---- a round as beats ------------------------------------------------------------------------------------------------

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

const VERDICTS = new Set(["kept", "rejected", "not_reached"]);
const ownEmit = round => round.emit.find(e => e.maker !== "draft");
const keptEmits = round => round.emit.filter(e => e.maker === "draft");

/** The token in a slot, a number or "own" for the target's; null where there is none. */
const tokenAt = (round, slot) => (slot === "own" ? ownEmit(round) : round.draft[slot])?.token_id ?? null;
const fateIn = (round, slot) => (slot === "own" ? ownEmit(round)?.maker : round.verify[slot]?.verdict) ?? "empty";
const same = (a, b) => Boolean(a && b && a.round === b.round && a.slot === b.slot);

/** A token's text with its signs. */
function pieceNode(round, token) {
  const node = make("bdi.tape-piece");
  for (const [text, kind] of parts(round.texts[token] ?? "")) node.append(kind ? make("i." + kind, {}, text) : text);
  return node;
}

/** What happened in a round, said in one sentence: nodes and text. Before the first round: what all this is about. */
function sentenceOf(R, index) {
  if (index < 0) return fill(R.say("sentence_start"), {});
  const round = R.rounds[index], own = ownEmit(round), kept = keptEmits(round).length;
  const refused = round.verify.find(v => v.verdict === "rejected");
  const token = id => make("code", {}, pieceNode(round, id));
  const values = { round: index + 1, drafted: round.draft.length, kept, tokens: round.emit.length, rows: round.rows };
  if (own) values.own = token(own.token_id);
  if (refused) {
    values.refused = token(round.draft[refused.slot].token_id);
    Object.assign(values, { chance: probability(refused.ratio), draw: probability(refused.u) });
  }
  const ending = [!round.draft.length && round.note && "note_" + round.note, round.done && "done_" + round.done];
  const what = !round.draft.length ? (index === 0 ? "sentence_prompt" : "sentence_plain")
    : !own ? "sentence_ended" : refused ? (R.header.rule === "match" || refused.u == null ? "sentence_differs" : "sentence_rejected") : "sentence_all";
  return [...fill(R.say(what), values), ...ending.map(key => key && R.say(key)).filter(Boolean).map(told => " " + told)];
}

// ---- the run ---------------------------------------------------------------------------------------------------------

/** Where the playhead stops: at every beat, at the end of every kind of beat, at the end of every round. */
const GRAINS = {
  token: () => true,
  phase: (beat, next) => beat.kind !== next?.kind || beat.round !== next?.round,
  round: beat => beat.kind === "final",
};

/** What one can jump to: beats at which it has just become visible. */
const MARKS = {
  rejected: (beat, round) => beat.kind === "verdict" && round.verify[beat.judged - 1].verdict === "rejected",
  bonus: (beat, round) => beat.kind === "final" && round.emit.at(-1)?.maker === "bonus",
  final: beat => beat.kind === "final",
};

function openRun(words) {
  const R = { id: null, header: null, rounds: [], beats: [], end: null, final: false, at: -1, held: false, playing: false, touched: false,
              shown: null, pins: [], language: "en", signs: true };
  const views = [], starts = [], aside = new Set();           // starts: the first beat of every round; aside: runs that a file replaced
  const call = (hook, ...values) => { for (const view of views) view[hook]?.(...values); };

  R.words = words;
  R.say = key => words[R.language][key];
  R.tell = (key, values) => fill(R.say(key), values).map(piece => piece.textContent ?? piece).join("");
  R.write = (node, key, values = {}) => node.replaceChildren(...fill(R.say(key), values));
  R.join = (...added) => views.push(...added);
  R.call = call;

  R.take = raw => {
    if (!raw) return;
    const message = typeof raw === "string" ? JSON.parse(raw) : raw;
    if (aside.has(message.run.id)) return;
    if (message.run.id !== R.id) begin(message.run);
    fold(message);
  };

  /** Show this run instead of whatever is there, even of itself; what still arrives of the other is not shown. */
  R.open = message => {
    const before = R.header && { run: R.header, rounds: R.rounds, end: R.end, final: R.final };
    try {
      begin(message.run);
      fold(message);
      if (before) aside.add(before.run.id);
    } catch (error) {                                           // nothing on screen is lost
      if (before) { begin(before.run); fold(before); }
      throw error;
    }
  };

  function fold(message) {
    if (message.ids) R.header.prompt = { ...R.header.prompt, ids: message.ids };
    for (const round of message.rounds) if (round.i === R.rounds.length) add(round);   // repeats drop out, a gap waits
    if (message.end) R.end = message.end;
    if (message.final) R.final = true;
    if (R.at < 0 && R.beats.length) R.at = 0;                   // at once: do not keep a new reader waiting
    call("arrive");
    call("draw");
  }

  function begin(header) {
    Object.assign(R, { id: header.id, header, rounds: [], beats: [], end: null, final: false, at: -1, held: false, playing: true,
                       shown: null, pins: [] });
    starts.length = 0;
    call("begin");
  }

  function add(round) {
    const index = R.rounds.length;
    R.rounds.push(round);
    starts.push(R.beats.length);
    R.beats.push(...beatsOf(round, index));
    call("add", round, index);
  }

  R.stop = () => {
    if (R.final || !R.rounds.length) return;
    R.final = true;
    call("draw");
  };

  // -- the playhead
  R.beat = () => R.beats[R.at];
  R.round = () => R.rounds[R.beat()?.round];
  /** How many rounds are over at the playhead, and the running counts behind the last of them. */
  R.over = () => { const beat = R.beat(); return !beat ? 0 : beat.kind === "final" ? beat.round + 1 : beat.round; };
  R.counts = () => R.rounds[R.over() - 1]?.counts;

  R.go = at => {
    R.at = Math.max(-1, Math.min(at, R.beats.length - 1));
    call("draw");
  };

  /** The nearest beat before or behind the playhead that satisfies test(beat, next beat); -1 = none. */
  const seek = (direction, test) => {
    let at = R.at + direction;
    while (at >= 0 && at < R.beats.length && !test(R.beats[at], R.beats[at + 1])) at += direction;
    return at < R.beats.length ? at : -1;
  };
  R.step = (grain, direction) => {
    const at = seek(direction, GRAINS[grain]);
    R.go(at >= 0 ? at : direction < 0 ? 0 : R.beats.length - 1);
  };
  R.jump = (mark, direction) => {
    const at = seek(direction, beat => MARKS[mark](beat, R.rounds[beat.round]));
    if (at >= 0) R.go(at);
    return at >= 0;
  };
  R.marked = mark => MARKS[mark](R.beat(), R.round());
  /** To the end of a round. */
  R.visit = index => R.go(lastBeat(index));

  // -- the selection: hover shows, click keeps, at most two
  R.show = ref => {
    if (same(R.shown, ref) || !(ref || R.shown)) return;
    R.shown = ref;
    call("point");
  };
  R.pin = ref => {
    const kept = R.pins.filter(pin => !same(pin, ref));
    R.pins = kept.length < R.pins.length ? kept : [...kept.slice(-1), ref];
    R.shown = ref;
    call("point");
  };
  R.unpin = () => {
    if (!R.pins.length) return false;
    R.pins = [];
    call("point");
    return true;
  };
  /** The token that single-token views tell about. */
  R.chosen = () => R.shown ?? R.pins.at(-1) ?? null;
  /** Whether the playhead has seen what became of a token of the round in view, or of any round before. */
  R.known = ref => R.beat()?.round !== ref.round || decidedAt(ref, R.beat());
  const decidedAt = ({ round, slot }, beat) =>
    slot === "own" ? beat.kind === "final" : VERDICTS.has(fateOf(R.rounds[round], slot, beat));
  const lastBeat = index => (starts[index + 1] ?? R.beats.length) - 1;
  /** The first beat that shows what became of a token, by its number. */
  R.momentOf = ref => {
    let at = starts[ref.round];
    while (at < lastBeat(ref.round) && !decidedAt(ref, R.beats[at])) at++;
    return at;
  };
  /** The round of the chosen token if the playhead has passed it, else the round in view: { index, round, beat, slot: the chosen }. */
  R.scene = () => {
    const beat = R.beat(), ref = R.chosen();
    if (!beat) return {};
    const index = ref?.round < beat.round ? ref.round : beat.round;
    return { index, round: R.rounds[index], beat: index < beat.round ? R.beats[lastBeat(index)] : beat,
             slot: ref?.round === index ? ref.slot : null };
  };
  /** The token decided last at the playhead. */
  R.decided = () => {
    const beat = R.beat();
    if (!beat) return null;
    if (beat.kind === "verdict") return { round: beat.round, slot: beat.judged - 1 };
    const round = beat.kind === "final" ? beat.round : beat.round - 1, own = R.rounds[round] && ownEmit(R.rounds[round]);
    return own ? { round, slot: "own" } : null;
  };
  /** Playhead and pins as a link names them, as far as they are there. */
  R.restore = ({ step, pins = [] }) => {
    const there = pin => R.rounds[pin.round] && tokenAt(R.rounds[pin.round], pin.slot) !== null;
    if (step !== undefined) R.playing = false;
    R.pins = pins.filter(there).slice(-2);
    R.go(step ?? R.at);
    call("point");
  };
  R.sign = on => {
    R.signs = on;
    call("signs");
  };
  R.hold = on => {
    if (R.held === on) return;
    R.held = on;
    call("hold");
  };

  R.speak = language => {
    R.language = words[language] ? language : "en";
    call("speak");
    call("point");
    call("draw");
  };
  return R;
}

/** Nodes whose words change with the language: worded(node, key, attribute?) registers and speak() says them again. */
function speller(R) {
  const known = [];
  const put = (node, key, attribute) => attribute ? node.setAttribute(attribute, R.say(key)) : node.textContent = R.say(key);
  return {
    worded: (node, key, attribute) => (known.push([node, key, attribute]), put(node, key, attribute), node),
    speak: () => { for (const entry of known) put(...entry); },
  };
}

/** A dialog that closes by its button and by a click beside it. */
function closing(worded, dialog, ...acts) {
  const close = worded(make("button.keep-button", { type: "button" }), "close");
  dialog.append(make("div.keep-acts", {}, ...acts, close));
  close.addEventListener("click", () => dialog.close());
  dialog.addEventListener("click", event => { if (event.target === dialog) dialog.close(); });
  return dialog;
}
