// The guided path: short chapters in the order in which one would tell it. A chapter owns what it opens and lights, and undoes
// it when it is left. Its numbers come from the run in view, its bet is answered by that run.

const LINE = 23;                                                // px; numbers that grow may take one more
const BET_REST = 6500;                                          // ms that an unanswered bet of the first visit waits

/** Chapters: the view that one opens, the recorded run [prompt, method] that it is about, the parts that it lights, its bet. */
const CHAPTERS = [
  { id: "first", light: [".tape-stage"], bet: "keep" },
  { id: "why", run: ["chat", "plain"], light: [".tape-stats"], bet: "passes" },
  { id: "idea", run: ["table", "ngram"], light: [".tape-stage"], bet: "survive" },
  { id: "model", run: ["maths", "lm"], light: [".tape-clock"], bet: "faster" },
  { id: "dflash", run: ["code", "dflash"], view: "fade", light: [".is-decay"], bet: "falls" },
  { id: "dspark", run: ["code", "dspark"], view: "sure", light: [".is-sure"], bet: "least" },
  { id: "verify", view: "fair", light: [".view-tab[data-view=fair]"], bet: "below" },
  { id: "pays", view: "lanes", light: [".view-tab[data-view=lanes]"], bet: "share" },
];

/** A guess whose draw really decides: neither as good as kept nor as good as refused. */
const doubtfulIn = round => round.verify.find(v => v.u != null && v.verdict !== "not_reached" && v.ratio >= 0.1 && v.ratio <= 0.9);
const judgedIn = rounds => rounds.flatMap(round => round.verify.filter(v => ["kept", "rejected"].includes(v.verdict)).map(v => [round.draft[v.slot], v]));

/** Bets: facts for the question, the choices, and the right one by the run - null as long as it cannot be told. */
const BETS = {
  keep: {
    choices: R => ["yes", "no"],
    ask(R) {
      const round = R.round(), doubtful = round && doubtfulIn(round), beat = R.beat();
      if (!doubtful || beat.kind === "draft") return null;
      const d = round.draft[doubtful.slot];
      return { token: make("code", {}, pieceNode(round, d.token_id)), place: doubtful.slot + 1, q: probability(d.q_tok), p: probability(doubtful.p_tok), key: `${R.id}/${beat.round}`,
               told: beat.kind === "final" || beat.judged > doubtful.slot, right: doubtful.verdict === "kept" ? "yes" : "no",
               chance: probability(doubtful.ratio), draw: probability(doubtful.u) };
    },
  },
  passes: {
    choices: R => ["1", "5", "20"],
    ask: R => R.rounds.length > 20 ? { key: R.id, told: R.over() > 20, right: "20" } : null,
  },
  survive: {
    choices: R => Array.from({ length: (R.round()?.draft.length ?? 0) + 1 }, (_, i) => String(i)),
    ask(R) {
      const round = R.round(), beat = R.beat();
      if (!round?.draft.length || beat.kind === "draft") return null;
      return { key: `${R.id}/${beat.round}`, k: round.draft.length, told: beat.kind === "final", right: String(keptEmits(round).length) };
    },
  },
  faster: {
    choices: R => ["faster", "slower"],
    ask(R) {
      const { decoding, plain } = R.end ?? {};
      if (!decoding?.tokens_per_second || !plain) return null;
      const ratio = decoding.tokens_per_second / plain.tokens_per_second;
      return { key: R.id, method: R.header.method, told: R.over() === R.rounds.length, right: ratio >= 1 ? "faster" : "slower", ratio: ratio.toFixed(2) };
    },
  },
  share: {
    choices: R => ["little", "some", "much"],
    ask(R, clocks) {
      const clock = clocks.at(-1);
      if (!R.final || !clock?.all || R.header.method === "plain") return null;
      const share = clock.spent / clock.all;
      return { key: R.id, method: R.header.method, told: true, share: percent(share), right: share < 0.1 ? "little" : share < 0.3 ? "some" : "much" };
    },
  },
  falls: {
    choices: R => ["lower", "higher"],
    ask(R) {
      const { kept, reached } = R.rounds.at(-1)?.counts ?? {};
      if (!reached || !(reached[1] > 0)) return null;
      const at = i => (kept[i] ?? 0) / reached[i];
      return { key: R.id, told: R.over() === R.rounds.length, right: at(1) < at(0) ? "lower" : "higher", one: percent(at(0)), two: percent(at(1)), n: reached[1] };
    },
  },
  least: {
    choices: R => ["kept", "rejected", "not_reached"],
    ask(R) {
      const round = R.round(), beat = R.beat(), sure = round?.draft.map(d => d.confidence) ?? [];
      if (!sure.length || sure.some(c => c == null) || beat.kind === "draft") return null;
      const slot = sure.indexOf(Math.min(...sure));
      return { key: `${R.id}/${beat.round}`, place: slot + 1, sure: percent(sure[slot]), told: beat.kind === "final", right: round.verify[slot].verdict };
    },
  },
  below: {
    choices: R => ["never", "sometimes", "always"],
    ask(R) {
      const less = judgedIn(R.rounds.slice(0, R.over())).filter(([d, v]) => v.p_tok < d.q_tok), kept = less.filter(([, v]) => v.verdict === "kept").length;
      if (less.length < 3) return null;
      return { key: R.id, told: true, n: less.length, kept, right: !kept ? "never" : kept === less.length ? "always" : "sometimes" };
    },
  },
};

function mountPath(R, source, choose, element) {
  const { say, write } = R;
  const { worded, speak } = speller(R);
  const step = make("small.path-step"), title = make("h2.path-title"), text = make("p.path-text");
  const bet = make("div.path-bet", { role: "status", "aria-live": "polite" }), term = make("p.path-term", { role: "status" });
  const dots = worded(make("div.path-dots", { role: "group" }), "path_chapters", "aria-label");
  const move = (name, by) => {
    const button = worded(make("button.path-" + name, { type: "button" }), "path_" + name);
    button.addEventListener("click", () => open(chapter + by));
    return button;
  };
  const look = worded(make("button.path-look", { type: "button" }), "path_look");
  look.addEventListener("click", () => element.querySelector(".view-tabs").scrollIntoView({ block: "start", behavior: calm.matches ? "auto" : "smooth" }));
  const back = move("back", -1), next = move("next", 1), node = worded(make("section.path", {}, make("div.path-head", {}, step, dots, make("span.path-moves", {}, look, back, next)), title, text, bet, term), "path", "aria-label");
  const marks = CHAPTERS.map((_, i) => {
    const button = make("button.path-dot", { type: "button" });
    button.addEventListener("click", () => open(i));
    dots.append(button);
    return button;
  });
  const done = new Set(), answers = new Map();                  // chapters completed; what was bet, by chapter and question
  let clocks = [];                                              // after each round: ms of drafting, ms of everything
  let chapter = 0, seen = "", sized = "", waiting = 0, visited = false;

  const here = () => CHAPTERS[chapter];
  /** Whether the run in view is not of the chapter's method. */
  const elsewhere = () => Boolean(here().run && R.header && R.header.method !== here().run[1]);

  /** With `stay` the run in view stays. */
  async function open(index, stay = false) {
    if (index < 0 || index >= CHAPTERS.length) return;
    leave();
    chapter = index;
    const { view, run, light } = here();
    if (view) choose(view);
    term.textContent = "";
    seen = "";
    enter();
    draw();
    if (run && source.recorded && !stay) {
      const message = await source.recorded(...run);
      if (message && chapter === index) R.take(message);
    }
  }

  /** Light what the chapter is about; leave() takes every light away. */
  function enter() {
    for (const part of element.querySelectorAll(here().light.join())) part.classList.add("is-lit");
  }
  function leave() {
    clearTimeout(waiting);
    for (const part of element.querySelectorAll(".is-lit")) part.classList.remove("is-lit");
  }

  // -- drawing
  function draw() {
    const { id } = here(), counts = R.counts(), first = R.rounds[0], { spent, all } = clocks[R.over() - 1] ?? { spent: 0, all: 0 };
    const guessing = round => round.draft.length > 0;
    const checked = R.rounds.findLast(round => round.i <= R.beat()?.round && guessing(round)) ?? R.rounds.find(guessing);
    const values = {
      tokens: counts?.tokens ?? 0, passes: counts?.passes ?? 0, per_pass: counts ? rate(counts.tokens / counts.passes) : "–", k: R.header?.knobs?.k ?? 0,
      prompt: first?.rows ?? "–", drafting: all ? percent(spent / all) : "–",
      ms: checked ? milliseconds(checked.t_target) : "–", one: R.end?.plain ? milliseconds(1000 / R.end.plain.tokens_per_second) : "–", accepted: counts?.accepted ?? 0, tested: counts?.tested ?? 0, rows: checked?.rows ?? "–",
    };
    const missing = elsewhere(), key = [id, missing, R.language, ...Object.values(values)].join();
    if (key !== seen) {
      seen = key;
      write(step, "path_step", { at: chapter + 1, of: CHAPTERS.length });
      title.textContent = say(`path_${id}`);
      const terms = Object.fromEntries(Object.keys(TERMS).map(name => ["term_" + name, termOf(name)]));
      const size = [id, R.language, element.clientWidth].join();
      if (size !== sized) text.style.minHeight = "";
      text.replaceChildren(...fill(say(`path_${id}_text`), { ...values, ...terms }), ...missing ? [" ", make("b.path-missing", {}, say("path_missing"))] : []);
      if (size !== sized && text.offsetHeight) {
        sized = size;
        text.style.minHeight = text.offsetHeight + LINE + "px";
      }
      back.disabled = chapter === 0;
      next.disabled = chapter === CHAPTERS.length - 1;
      look.hidden = !here().view;
      for (const [i, dot] of marks.entries()) {
        dot.setAttribute("aria-label", say("path_" + CHAPTERS[i].id) + (done.has(i) ? ", " + say("path_done") : ""));
        dot.title = say("path_" + CHAPTERS[i].id);
        dot.textContent = String(i + 1);
        dot.classList.toggle("is-done", done.has(i));
        dot.setAttribute("aria-current", i === chapter ? "step" : "false");
      }
    }
    drawBet();
  }

  function drawBet() {
    const name = here().bet, other = elsewhere();
    const asked = R.rounds.length && !other ? BETS[name].ask(R, clocks) : null;
    const mine = asked && answers.get(name + asked.key), over = R.final && R.at >= R.beats.length - 1;
    const state = [here().id, R.language, asked?.key, mine, asked?.told, asked?.right, other, over].join();
    if (bet.dataset.state === state) return;
    bet.dataset.state = state;
    if (!asked) return bet.replaceChildren(make("span.path-later", {}, other ? "" : say(over ? "bet_over" : "bet_later")));
    const truth = () => fill(say(`bet_${name}_told`), { ...asked, right: say(`bet_${name}_${asked.right}`) ?? asked.right });
    if (asked.told && !mine && name === "keep")                 // too late to bet: what was asked and what came of it
      return bet.replaceChildren(make("span.path-later", {}, ...fill(say("bet_keep_was"), asked), " ", ...truth()));
    const choices = BETS[name].choices(R).map(choice => {
      const button = make("button.path-choice", { type: "button", "aria-pressed": String(mine === choice) }, say(`bet_${name}_${choice}`) ?? choice);
      button.disabled = Boolean(mine);
      button.addEventListener("click", () => answer(name, asked, choice));
      return button;
    });
    const parts = [make("span.path-question", {}, ...fill(say("bet_" + name), asked)), make("span.path-choices", { role: "group" }, ...choices)];
    if (mine && asked.told) parts.push(make("span.path-answer", {}, say(mine === asked.right ? "bet_right" : "bet_wrong"), " ", ...truth()));
    else if (mine) parts.push(make("span.path-answer", {}, say("bet_wait")));
    bet.replaceChildren(...parts);
  }

  /** A bet is taken once; then the run shows what happens. */
  function answer(name, asked, choice) {
    clearTimeout(waiting);
    answers.set(name + asked.key, choice);
    done.add(chapter);
    seen = "";
    if (!asked.told) {
      R.playing = true;
      R.call("arrive");
    }
    draw();
  }

  /** As long as nobody has touched the player, it stops once, right before a check that the draw decides, and asks; without an answer it goes on. */
  function pauseForBet() {
    const beat = R.beat(), round = R.round();
    if (visited || R.touched || here().id !== "first" || !R.playing || !round || beat.round < 2 || beat.kind !== "check" || !doubtfulIn(round)) return;
    visited = true;
    R.playing = false;
    R.call("hold");
    waiting = setTimeout(() => { if (!R.playing && R.beat() === beat) { R.playing = true; R.call("arrive"); } }, BET_REST);
  }

  // -- terms: a word, one line, and where to see it
  function termOf(name) {
    const button = make("button.path-word", { type: "button", "aria-describedby": "path-term" }, say("term_" + name));
    button.addEventListener("click", () => {
      const [view, light] = TERMS[name];
      const show = make("button.path-show", { type: "button" }, say("term_show"));
      show.addEventListener("click", () => {
        if (view) choose(view);
        for (const part of element.querySelectorAll(light)) { part.classList.add("is-lit"); part.scrollIntoView({ block: "nearest" }); }
      });
      term.replaceChildren(make("b", {}, say("term_" + name)), " " + say(`term_${name}_is`) + " ", show);
    });
    return button;
  }

  element.addEventListener("click", event => { if (!event.target.closest(".path-word, .path-term")) term.replaceChildren(); });
  term.id = "path-term";
  enter();
  return {
    node, open: (id, stay) => open(CHAPTERS.findIndex(each => each.id === id), stay), at: () => chapter ? here().id : null,
    begin() { clocks = []; },
    add(round) {
      const before = clocks.at(-1) ?? { spent: 0, all: 0 };
      clocks.push({ spent: before.spent + round.t_draft, all: before.all + elapsed(round) });
    },
    draw() { pauseForBet(); draw(); },
    point: drawBet,
    speak() { speak(); seen = ""; bet.dataset.state = ""; term.textContent = ""; },
  };
}

/** Coined words: the view and the part where one can be seen. */
const TERMS = {
  token: [null, ".tape-text"], pass: [null, ".tape-stage .tape-clock"], target: [null, ".tape-cell.is-own"], drafter: [null, ".tape-cell:not(.is-own)"],
  round: [null, ".tape-stage"], draft: [null, ".tape-cell:not(.is-own)"], bonus: [null, ".tape-legend .is-bonus"], correction: [null, ".tape-legend .is-correction"],
  prefill: [null, ".tape-line"], survival: ["fade", ".is-decay"], conditional: ["fade", ".is-decay"], block: [null, ".tape-slots"], markov: ["fade", ".view-fade"],
  confidence: ["sure", ".is-sure"], residual: ["fair", "#view-fair"], lossless: ["fair", "#view-fair"],
};
