// Why guesses fade: acceptance by position in the draft, in this run and by method; and two reasons seen in real blocks, a slot
// guessed for another token before it, and the head that knows the token before. Counts come ready (engine/metrics.py).

/** Printed by a server, not measured here: survival by position (vLLM issue 48892; MTP, 8 guesses, gsm8k, temperature 0). */
const QUOTED = [0.7617, 0.6158, 0.5125, 0.4243, 0.3640, 0.3094, 0.2722, 0.2365];

/** Conditional acceptance from survival, where every draft has the same length: each share over its left neighbour. */
const conditionalOf = survival => survival.map((share, i) => share / (survival[i - 1] ?? 1));

/** When a refused guess counts as meant for another token before it; shares of the models' own laws at temperature 1. */
const COLLISION = { meant: 0.2, given: 0.05, other: 0.1 };

/** A guess made in the same pass as the one before it, so without knowing which token that would be. */
const isBlind = (round, d) => d.parent !== null && d.pass === round.draft[d.parent].pass && Boolean(d.q_own_top);

/**
 * Where two meanings met in a round: a guess was refused although its block, before any head, gave it `meant` or more; after
 * the token that really stands before it the target gives it less than `given`; and for the slot before the drafter had
 * another token with `other` or more.
 */
function collisionsIn(round) {
  return round.verify.filter(v => v.verdict === "rejected" && isBlind(round, round.draft[v.slot])).flatMap(v => {
    const d = round.draft[v.slot], before = round.draft[d.parent];
    const meant = (d.q_base_top ?? d.q_own_top).find(([id]) => id === d.token_id)?.[1] ?? 0;
    const other = before.q_own_top.find(([id, chance]) => id !== before.token_id && chance >= COLLISION.other);
    if (meant < COLLISION.meant || v.p_own_tok >= COLLISION.given || !other) return [];
    return [{ slot: v.slot, before: before.slot, token: d.token_id, meant, given: v.p_own_tok,
              taken: before.token_id, had: before.q_own_tok, other: other[0], chance: other[1] }];
  });
}

/** The share of guesses behind the first position that were kept: [kept, of how many]. */
const tailOf = (kept, whole) => [sum(kept.slice(1)), sum(whole.slice(1))];

function mountFade(R) {
  const { experiment } = R;
  const { say, tell, write } = R;
  const { worded, speak } = speller(R);
  let mode = "survival", series = "run", heat = "0", headed = true, found = [], seen = "";
  const wholeOf = counts => counts ? (mode === "survival" ? counts.offered : counts.reached) : [];
  const flip = (change, draw) => value => { change(value); draw(); };

  // -- this run, or a quoted one
  const chart = shareChart("decay");
  const modes = switcher(["survival", "conditional"], flip(name => { mode = name; }, draw));
  const sources = switcher(["run", "quoted"], flip(name => { series = name; }, draw));
  chart.head.append(modes.node);
  chart.node.append(sources.node);

  function drawDecay() {
    const counts = R.counts(), quoted = series === "quoted", whole = wholeOf(counts), told = [], { round, slot } = R.scene();
    const chosen = quoted ? null : round?.draft[slot]?.depth;   // its place in the draft, from 1
    const shares = mode === "survival" ? QUOTED : conditionalOf(QUOTED);
    const places = quoted ? QUOTED.length : Math.max(1, R.header?.knobs?.k ?? 1);
    const { step, middle } = chart.frame(places), half = Math.min(16, step * 0.32), wide = step > 34;
    const count = (x, y, text) => chart.field.append(svg("text.curves-count", { x, y: FIELD.tall + y }, text));
    for (let i = 0; i < places; i++) {
      const x = middle(i), n = whole[i] ?? 0, hits = counts?.kept[i] ?? 0;
      if (quoted) {
        chart.bar(x, half, shares[i]);
        count(x, 27, short(shares[i], 3));
        told.push(`${i + 1}: ${short(shares[i], 3)}`);
      } else if (n) {
        chart.bar(x, half, hits / n, interval(hits, n), "curves-bar" + (i + 1 === chosen ? ".is-here" : ""));
        count(x, 27, wide ? `${hits}/${n}` : String(hits));
        if (!wide) count(x, 38, String(n));
        told.push(`${i + 1}: ${hits}/${n}`);
      }
    }
    chart.title.textContent = say("decay_title");
    chart.field.setAttribute("aria-label", [say("decay_" + mode), ...told].join(", "));
    chart.note.textContent = quoted ? say("fade_quoted_" + mode) : told.length ? say(`decay_${mode}_note`) : say("decay_empty");
  }

  // -- two meanings in one block
  const told = make("p.fade-told"), places = make("div.fade-places");
  const meanings = make("figure.fade-meanings", {}, make("figcaption", {}, worded(make("b"), "collision_title")), told, places,
    make("p.curves-note.fade-rule"));

  function drawMeanings() {
    const over = R.over(), key = [R.id, R.language, over, R.rounds.length].join();
    if (seen === key) return;
    seen = key;
    const outcomeOf = to => {
      const rounds = R.rounds.slice(0, to), hits = found.slice(0, to).flat(),
        blind = rounds.some(r => r.draft.some(d => isBlind(r, d)));
      const refused = sum(rounds.map(r => r.verify.filter(v => v.verdict === "rejected").length));
      return [!refused ? "nothing" : !blind ? "never" : hits.length ? "found" : "none", { refused, hits: hits.length }, hits];
    };
    const [outcome, counts, hits] = outcomeOf(over);
    write(told, "collision_" + outcome, counts);
    meanings.dataset.room = outcomeOf(R.rounds.length)[0];      // what the whole run needs: nothing moves while it plays
    places.replaceChildren(...hits.map(hit => {
      const round = R.rounds[hit.round], piece = id => make("code", {}, pieceNode(round, id));
      const button = make("button.fade-place", { type: "button" }, ...fill(say("collision_place"), {
        round: hit.round + 1, before: hit.before + 1, slot: hit.slot + 1, taken: piece(hit.taken), again: piece(hit.taken),
        other: piece(hit.other), token: piece(hit.token),
        had: short(hit.had), chance: short(hit.chance), meant: short(hit.meant), given: probability(hit.given) }));
      button.addEventListener("click", () => {
        R.playing = false;
        R.visit(hit.round);
        R.show({ round: hit.round, slot: hit.slot });
      });
      return button;
    }));
    write(meanings.lastChild, "collision_rule",
      Object.fromEntries(Object.entries(COLLISION).map(([name, share]) => [name, percent(share)])));
  }

  // -- the Markov head, on and off, on the block in view
  const heads = switcher(["on", "off"], flip(name => { headed = name === "on"; }, drawHead));
  const grid = worded(make("div.fade-block", { role: "table" }), "head_title", "aria-label"), changed = make("p.fade-told");
  const head = make("figure.fade-head", {}, make("figcaption", {}, worded(make("b"), "head_title"), heads.node),
    worded(make("div.fade-scroll", { role: "region", tabindex: "0" }, grid), "head_title", "aria-label"), changed,
    worded(make("p.curves-note.fade-units"), "head_units"));

  function drawHead() {
    const { index, round, beat, slot } = R.scene(), before = R.rounds[index - 1];
    head.dataset.has = Boolean(R.header?.knobs?.markov);
    heads.draw(headed ? "on" : "off", name => say("head_" + name));
    const markov = R.header?.knobs?.markov, block = (round?.draft ?? []).slice(0, beat?.shown ?? 0),
      there = block.some(d => d.q_base_top);
    grid.style.setProperty("--places", Math.max(1, R.header?.knobs?.k ?? 1));
    if (!there) {
      grid.replaceChildren();
      return write(changed, markov === undefined ? "head_never" : markov ? "head_nothing" : "head_absent");
    }
    const cell = (round, id, chance, kind = "") => make("span.fade-cell" + kind, { role: "cell" }, kind ? "≠ " : "", pieceNode(round, id),
      make("small", {}, chance));
    const line = (name, kind, ...cells) => make("div.fade-line." + kind, { role: "row" },
      make("span.fade-name", { role: "rowheader" }, say("head_row_" + name)), ...cells);
    const differ = block.filter(d => d.q_base_top[0][0] !== d.q_own_top[0][0]);
    const off = line("off", "is-off", ...block.map(d => cell(round, d.q_base_top[0][0], short(d.q_base_top[0][1]))));
    const on = line("on", "is-on",
      ...block.map(d => cell(round, d.q_own_top[0][0], short(d.q_own_top[0][1]),
      differ.includes(d) ? ".is-changed" : "")));
    const drawn = line("drawn", "is-drawn", ...block.map(d => {
      const last = d.parent === null ? before?.emit.at(-1).token_id : round.draft[d.parent].token_id;
      const source = d.parent === null ? before : round, fate = fateOf(round, d.slot, beat);
      return make("span.fade-cell.is-" + fate + (d.slot === slot ? ".is-here" : ""), { role: "cell" },
        make("span.fade-arrow", {}, make("span.fade-last", {}, pieceNode(source, last)),
          make("i", { "aria-hidden": "true" }, "→"),
          make("b", {}, (d.bias < 0 ? "−" : "+") + Math.abs(d.bias).toFixed(2))),
        make("span.fade-guess", {}, make("span.tape-glyph", { "aria-hidden": "true" }, GLYPHS[fate]),
          pieceNode(round, d.token_id)));
    }));
    grid.replaceChildren(off, on, drawn);
    for (const row of [on, drawn]) row.classList.toggle("is-away", !headed);
    if (!headed) return write(changed, "head_told_off", { places: block.length });
    write(changed, differ.length ? "head_told" : "head_same",
      { slots: differ.map(d => d.slot + 1).join(say("list_and")), places: block.length, changes: differ.length });
  }

  // -- every method, from the recorded experiment
  const heats = switcher(Object.keys(experiment.runs), flip(name => { heat = name; }, drawMethods));
  const panels = make("div.fade-panels"), badge = make("span.view-badge");
  const methods = make("figure.fade-methods", {}, make("figcaption", {}, worded(make("b"), "methods_title"), heats.node),
    panels, make("p.curves-note"), badge);
  const most = Math.max(...Object.values(experiment.runs).flatMap(run =>
    Object.values(run).map(counts => counts.offered.length)));

  function drawMethods() {
    heats.draw(heat, name => tell("fade_temperature", { temperature: name }));
    const guessing = Object.entries(experiment.runs[heat]).filter(([, counts]) => counts.drafted);
    panels.replaceChildren(...guessing.map(([name, counts]) => {
      const panel = shareChart("method", 160, 20), whole = wholeOf(counts), { step, middle } = panel.frame(most), spoken = [];
      whole.forEach((n, i) => {
        const hits = counts.kept[i] ?? 0;
        if (!n) return;
        panel.bar(middle(i), step * 0.32, hits / n, interval(hits, n), n < 20 ? "curves-bar.is-few" : "curves-bar");
        spoken.push(`${i + 1}: ${hits}/${n}`);
      });
      const [kept, of] = tailOf(counts.kept, whole);
      panel.node.dataset.method = name;
      panel.title.textContent = name;
      panel.field.setAttribute("aria-label", [name, say("decay_" + mode), ...spoken].join(", "));
      panel.note.replaceChildren(...["methods_first", "methods_tail"].map((key, i) => {
        const [hits, n] = i ? [kept, of] : [counts.kept[0] ?? 0, whole[0]];
        return make("span", {}, ...fill(say(key), { last: whole.length, share: short(n ? hits / n : null), hits, n }));
      }));
      return panel.node;
    }));
    write(methods.querySelector(":scope > .curves-note"), "methods_note", { prompts: experiment.prompts });
    write(badge, "badge_recorded", { machine: experiment.machine, date: experiment.date });
  }

  // -- all of it
  function draw() {
    modes.draw(mode, name => say("decay_" + name));
    sources.draw(series, name => say("fade_series_" + name));
    drawDecay();
    drawMeanings();
    drawHead();
    const key = [R.language, mode, heat].join();
    if (panels.dataset.key !== key) { panels.dataset.key = key; drawMethods(); }
  }

  return {
    name: "fade", draw, speak, point() { drawDecay(); drawHead(); },
    node: make("section.view-fade", {}, make("div.view-pair", {}, chart.node, meanings), head, methods),
    begin() { found = []; seen = ""; },
    add(round, index) { found.push(collisionsIn(round).map(hit => ({ ...hit, round: index }))); },
    keys: { d() { mode = mode === "survival" ? "conditional" : "survival"; draw(); }, m() { headed = !headed; draw(); } },
  };
}
