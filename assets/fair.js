// Why it is fair: one guess, its chance and its draw; what a refusal leaves; a thousand draws; the settings first.
// The numbers are those of a guess of the run, or of a small pair of laws that the reader may change.

const FAIR = {
  draws: 1000, strides: 20, pause: 70, marks: 300, sure: 0.99,
  off: { temperature: 1, top_k: 0, top_p: 1 },
  golden: { names: ["A", "B", "C"], p: [0.4, 0.35, 0.25], q: [0.1, 0.1, 0.8], token: 2, u: 0.62 },
  lessons: { lossless: ["exact", "match", "spike"], lossy: ["tolerance", "typical"], wrong: ["resample", "argmax", "greedy"] },
  signs: { lossless: "✓", lossy: "≈", wrong: "✗" },
  sliders: { temperature: [0, 2, 0.05], top_k: [0, 3, 1], top_p: [0.05, 1, 0.05] },
};

// ---- arithmetic ------------------------------------------------------------------------------------------------------

/** A law after temperature, top-k and top-p: what engine/sampling.py warp() makes of its logarithms. */
function warpOf(law, { temperature, top_k, top_p }) {
  const most = Math.max(...law);
  if (temperature < 1e-5) return law.map((_, i) => Number(i === law.indexOf(most)));
  let logits = law.map(x => (Math.log(x) - Math.log(most)) / temperature);
  if (top_k > 0 && top_k < law.length) {
    const least = [...logits].sort((a, b) => b - a)[top_k - 1];
    logits = logits.map(x => x < least ? -Infinity : x);
  }
  const normal = list => { const all = sum(list); return list.map(x => x / all); };
  const warped = normal(logits.map(Math.exp));
  if (top_p >= 1) return warped;
  let before = 0;
  const kept = warped.map(() => 0);
  for (const i of [...warped.keys()].sort((a, b) => warped[b] - warped[a] || a - b)) {
    if (before === 0 || before < top_p) kept[i] = warped[i];
    before += warped[i];
  }
  return normal(kept);
}

const overlapOf = (p, q) => sum(p.map((x, i) => Math.min(x, q[i])));

/** What is left of p after a refusal, and its sum before it is rescaled. */
function leftOf(p, q) {
  const left = p.map((x, i) => Math.max(0, x - q[i])), mass = sum(left);
  return { left, mass, law: mass > 0 ? left.map(x => x / mass) : p };
}

/** The entry of a law that u in [0, 1) picks. */
function pickFrom(law, u) {
  let rest = u * sum(law);
  const at = law.findIndex(x => (rest -= x) < 0);
  return at < 0 ? law.findLastIndex(x => x > 0) : at;
}

/** The counts between which n draws of chance p stay in `share` of all cases (binomial quantiles). */
function bandOf(n, p, share = 0.95) {
  if (p <= 0 || p >= 1) return p > 0 ? [n, n] : [0, 0];
  const tail = (1 - share) / 2;
  let log = n * Math.log1p(-p), below = Math.exp(log), k = 0, low = null;
  while (below < 1 - tail && k < n) {
    if (low === null && below > tail) low = k;
    log += Math.log((n - k) / (k + 1)) + Math.log(p) - Math.log1p(-p);
    below += Math.exp(log);
    k++;
  }
  return [low ?? k, k];
}

/** The distance from p (half the sum of differences) that n honest draws are expected to have. */
const noiseOf = (n, p) => sum(p.map(x => Math.sqrt(2 * x * (1 - x) / (Math.PI * n)))) / 2;

// ---- two laws side by side -------------------------------------------------------------------------------------------

const columnsOf = (...kinds) => make("colgroup", {}, ...kinds.map(kind => make(kind)));
const nameOf = row => row.name.cloneNode?.(true) ?? row.name;

/** A table of mirrored bars, q to the left and p to the right; the filled part of a bar is the overlap. */
function mirrorTable(R, edit) {
  const caption = make("caption"), head = make("tr"), body = make("tbody");
  const columns = columnsOf("col.fair-number", "col", "col.fair-name", "col", "col.fair-number");
  const node = make("table.fair-law", {}, caption, columns, make("thead", {}, head), body);
  let built = "", lines = [];

  const bar = side => make("td.fair-side.is-" + side, { "aria-hidden": "true" }, make("i.fair-bar"), make("i.fair-core"));
  const column = key => make("th", { scope: "col", colspan: 2 }, R.say(key));

  function field(side, i, token) {
    const label = R.tell("fair_edit", { side, token });
    const input = make("input.fair-field", { type: "number", min: 0, max: 1, step: 0.05, "aria-label": label });
    input.addEventListener("change", () => edit.set(side, i, input.value));
    return input;
  }

  function pick(i, token) {
    const button = make("button.fair-pick", { type: "button", "aria-label": R.tell("fair_pick", { token }) }, token);
    button.addEventListener("click", () => edit.pick(i));
    return button;
  }

  function lineOf(row, i, editable) {
    const mine = edit && typeof row.name === "string" && row.id !== "rest";
    const number = side => make("td.fair-number", {}, editable && mine ? field(side, i, row.name) : make("span"));
    const name = make("th", { scope: "row" }, mine ? pick(i, row.name) : nameOf(row));
    return make("tr", {}, number("q"), bar("q"), name, bar("p"), number("p"));
  }

  return { node, draw({ rows, rest, key, title, editable }) {
    const all = [...rows, ...(rest ? [{ id: "rest", name: R.say("law_rest"), ...rest }] : [])];
    const now = [R.language, key, editable, ...all.map(row => row.id)].join();
    caption.textContent = R.say(title);
    if (now !== built) {
      built = now;
      lines = all.map((row, i) => lineOf(row, i, editable));
      head.replaceChildren(column("law_q"), make("td"), column("law_p"));
      body.replaceChildren(...lines);
    }
    for (const [i, row] of all.entries()) {
      lines[i].classList.toggle("is-here", Boolean(row.here));
      lines[i].querySelector(".fair-pick")?.setAttribute("aria-pressed", String(Boolean(row.here)));
      for (const [side, drawn, told] of [["q", 1, 0], ["p", 3, 4]]) {
        const cell = lines[i].children[drawn], shown = lines[i].children[told].firstChild;
        cell.style.setProperty("--size", row[side] ?? 0);
        cell.style.setProperty("--core", row.core ?? 0);
        if (shown.matches("input")) shown.value = Number(row[side].toFixed(4)); else shown.textContent = probability(row[side]);
        shown.title = row[side] == null ? R.say("law_rest") : "";
      }
    }
  } };
}

/** A switcher with its words. */
function choiceOf(R, { worded }, name, values, act) {
  const { node, draw } = switcher(values, act);
  node.classList.add("fair-" + name);
  return { node: worded(node, "fair_" + name, "aria-label"), set: chosen => draw(chosen, value => R.say(`fair_${name}_${value}`)) };
}

// ---- the view --------------------------------------------------------------------------------------------------------

function mountFair(R, ask) {
  const { say, write } = R, tongue = speller(R), { worded } = tongue;
  const toy = { ...structuredClone(FAIR.golden), settings: { ...FAIR.off } };
  let wish = null, last = null, part = "left";

  const button = (key, act, kind = "") => {
    const made = worded(make("button.fair-button" + kind, { type: "button" }), key);
    made.addEventListener("click", act);
    return made;
  };
  const group = (...nodes) => make("div.fair-group", {}, ...nodes);
  const tokenNode = now => make("code", {}, nameOf(now));

  // -- whose numbers
  /** The guess that the selection is about: a correction tells about the guess it replaced. */
  function guessOf(ref) {
    const round = R.rounds[ref?.round];
    if (!round) return null;
    const slot = ref.slot === "own" ? round.verify.findLastIndex(v => v.verdict === "rejected") : ref.slot;
    return round.draft[slot] && R.known({ round: ref.round, slot }) ? { round: ref.round, slot } : null;
  }
  const source = () => wish ?? (last ? "run" : "toy");

  function facts() {
    last = guessOf(R.chosen()) ?? last;
    return source() === "toy" ? ofToy() : last && ofRun(last);
  }

  const warped = () => Object.entries(FAIR.off).some(([name, value]) => toy.settings[name] !== value);

  function ofToy() {
    const [p, q] = [toy.p, toy.q].map(law => warpOf(law, toy.settings)), { left, mass, law } = leftOf(p, q), x = toy.token;
    const chance = q[x] > 0 ? Math.min(1, p[x] / q[x]) : null;
    const rows = toy.names.map((name, i) => ({ id: name, name, p: p[i], q: q[i], core: Math.min(p[i], q[i]), left: left[i],
                                               final: law[i], here: i === x }));
    return { toy: true, key: "toy", rule: "exact", rows, rest: { p: 0, q: 0 }, laws: { p, q }, mass, overlap: overlapOf(p, q),
             name: toy.names[x], p: p[x], q: q[x], chance, u: toy.u, editable: !warped(),
             verdict: chance == null ? null : toy.u < chance ? "kept" : "rejected" };
  }

  function ofRun({ round: index, slot }) {
    const round = R.rounds[index], d = round.draft[slot], v = round.verify[slot], token = d.token_id, { rule } = R.header;
    const repaired = v.verdict === "rejected" && rule === "exact" && round.final?.residual_top ? round.final : null;
    const shared = (must, p, pRest, pToken, q, qRest, qToken) => {
      const { rows, rest } = sharedRows(must, { p: { top: p, others: pRest, token, chance: pToken },
                                                q: { top: q, others: qRest, token, chance: qToken } });
      return { rest, rows: rows.map(row => ({ ...row, name: pieceNode(round, row.id), here: row.id === token,
                                              core: Math.min(row.p ?? 0, row.q ?? 0) })) };
    };
    const must = repaired ? [token, repaired.token_id] : [token], mass = v.overlap == null ? null : 1 - v.overlap;
    const now = shared(must, v.p_top, v.p_rest, v.p_tok, d.q_top, d.q_rest, d.q_tok);
    const own = shared([token], v.p_own_top, v.p_own_rest, v.p_own_tok, d.q_own_top, d.q_own_rest, d.q_own_tok);
    const final = new Map(repaired?.residual_top);
    for (const row of now.rows) {                               // p and q may be among "all others" and then are unknown
      const both = row.p != null && row.q != null;
      row.final = final.get(row.id) ?? (both && row.p <= row.q ? 0 : null);
      row.left = both ? Math.max(0, row.p - row.q) : mass != null && row.final != null ? row.final * mass : null;
    }
    return { key: [R.id, index, slot].join("/"), rule, ...now, own, mass, overlap: v.overlap, repaired, index,
             name: pieceNode(round, token), p: v.p_tok, q: d.q_tok, chance: v.ratio, u: v.u, verdict: v.verdict };
  }

  // -- the two laws
  const sources = choiceOf(R, tongue, "source", ["run", "toy"], value => {
    wish = value;
    if (value === "run" && !last) latest();
    draw();
  });
  const judgedSoFar = () => R.rounds.slice(0, R.over()).flatMap((round, index) =>
    round.verify.filter(v => v.u != null).map(({ slot, verdict }) => ({ ref: { round: index, slot }, verdict })));
  const refusal = () => judgedSoFar().findLast(v => v.verdict === "rejected");
  /** Shows the refusal, or else the guess, that was judged last before the playhead. */
  function latest() {
    const found = refusal() ?? judgedSoFar().at(-1);
    if (found) R.show(found.ref);
  }
  const badge = make("span.fair-badge"), title = make("span.fair-title"), hint = make("p.tape-hint");
  const table = mirrorTable(R, {
    pick(i) { toy.token = i; draw(); },
    set(side, i, text) {                                        // the others make room in proportion
      const value = Math.min(1, Math.max(0, Number(text) || 0)), law = toy[side], others = sum(law) - law[i];
      const share = x => others > 1e-12 ? x / others : 1 / (law.length - 1);
      toy[side] = law.map((x, j) => j === i ? value : share(x) * (1 - value));
      draw();
    },
  });
  const preset = (key, laws) => button(key, () => { Object.assign(toy, laws(), { settings: { ...FAIR.off } }); draw(); });
  const presets = worded(group(
    preset("fair_preset_golden", () => structuredClone(FAIR.golden)),
    preset("fair_preset_equal", () => ({ q: [...toy.p] })),
    preset("fair_preset_spike", () => {
      const q = warpOf(toy.q, { ...FAIR.off, temperature: 0 });
      return { q, token: q.indexOf(1) };
    })), "fair_presets", "aria-label");
  presets.setAttribute("role", "group");
  const overlap = make("p.fair-say"), frozen = worded(make("p.fair-note"), "fair_settings_on");

  function drawLaws(now) {
    table.draw({ ...now, title: "fair_laws" });
    presets.hidden = !now.toy;
    frozen.hidden = !now.toy || now.editable;
    overlap.hidden = now.overlap == null;
    write(overlap, now.rule === "exact" ? "fair_overlap" : "fair_overlap_other", { overlap: probability(now.overlap) });
  }

  // -- the chance and the draw
  const needle = make("i.fair-needle"), u = make("span.fair-u"), judged = make("p.fair-say");
  const marks = { kept: svg("path.is-kept"), refused: svg("path.is-rejected") };
  const rug = svg("svg.fair-rug", { viewBox: "0 0 1000 10", preserveAspectRatio: "none", "aria-hidden": "true" });
  rug.append(marks.kept, marks.refused);
  const ruler = make("div.fair-ruler", { role: "img" }, u, make("div.fair-track", {}, make("i.fair-chance"), needle), rug,
    make("div.fair-scale", { "aria-hidden": "true" }, ...["0", ".5", "1"].map(text => make("span", {}, text))));
  const tally = make("p.fair-note.fair-tally", { role: "status" });
  const redraws = group(button("fair_again", () => redraw(1), ".fair-again"), button("fair_again_many", () => redraw(100)));
  let again = {};

  function redraw(times) {
    const now = facts();
    if (now?.chance == null) return;
    for (let i = 0; i < times; i++) {
      const drawn = Math.random(), kept = drawn < now.chance;
      again.n++;
      again.kept += kept;
      again.marks.push([drawn, kept]);
    }
    again.marks.splice(0, again.marks.length - FAIR.marks);
    drawRuler(now);
  }

  function drawRuler(now) {
    const of = [now.key, now.chance, now.rule].join(), match = now.rule === "match";
    const drawn = now.u != null && now.verdict && !match;       // under match u draws the target's own token
    if (again.of !== of) again = { of, n: 0, kept: 0, marks: [] };
    ruler.dataset.verdict = now.verdict ?? "none";
    ruler.style.setProperty("--chance", now.chance ?? 0);
    ruler.style.setProperty("--u", now.u ?? 0);
    needle.hidden = !drawn;
    u.textContent = drawn ? `${GLYPHS[now.verdict]} u = ${probability(now.u)}` : "";
    const path = (drawn, line) => drawn.map(([x]) => `M${(1000 * x).toFixed(1)} ${line}`).join("");
    marks.kept.setAttribute("d", path(again.marks.filter(mark => mark[1]), "0v10"));
    marks.refused.setAttribute("d", path(again.marks.filter(mark => !mark[1]), "6v4"));
    const values = { token: tokenNode(now), p: probability(now.p), q: probability(now.q), chance: probability(now.chance), u: probability(now.u) };
    const outcome = now.verdict && `fair_u_${match && now.verdict !== "not_reached" ? "match_" : ""}${now.verdict}`;
    judged.replaceChildren(...fill(say("fair_chance_" + (now.chance == null ? "none" : now.rule)), values),
      ...(outcome ? [" ", ...fill(say(outcome), values)] : []));
    ruler.setAttribute("aria-label", say("fair_ruler") + ". " + judged.textContent);
    const [low, high] = bandOf(again.n, now.chance ?? 0);
    write(tally, again.n ? "fair_again_tally" : "fair_again_none", { kept: again.kept, n: again.n, low, high });
    for (const node of redraws.children) node.disabled = now.chance == null;
  }

  // -- what is left
  const steps = choiceOf(R, tongue, "step", [1, 2, 3, 4], value => {
    step = value;
    fallen = Math.random();
    draw();
  });
  const toRefusal = button("fair_show_refusal", () => { latest(); draw(); });
  const elsewhere = group(toRefusal, button("fair_take_toy", () => { wish = "toy"; draw(); }));
  const leftRows = make("tbody"), leftSay = make("p.fair-say");
  const leftTable = make("table.fair-left", {}, worded(make("caption"), "fair_left_title"),
    columnsOf("col.fair-name", "col", "col.fair-number", "col.fair-glyph"), leftRows);
  let step = 1, fallen = 0;

  /** Why nothing is left to show, if so. */
  const nothing = now => now.toy ? (now.mass > 1e-12 ? null : "nothing") : now.repaired ? null : now.rule !== "exact" ? "rule"
    : now.verdict === "rejected" ? "absent" : now.verdict;

  function drawLeft(now) {
    const why = nothing(now);
    leftTable.hidden = steps.node.hidden = Boolean(why);
    elsewhere.hidden = !why || now.toy;
    toRefusal.hidden = now.rule !== "exact" || !refusal();
    steps.set(step);
    if (why) return write(leftSay, "fair_left_" + why);
    const others = { id: "rest", name: say("law_rest"), p: now.rest.p, core: 0, final: now.repaired?.residual_rest };
    const rows = now.toy ? now.rows : [...now.rows, others], of = [R.language, now.key, ...rows.map(row => row.id)].join();
    if (leftRows.dataset.of !== of) {
      leftRows.dataset.of = of;
      leftRows.replaceChildren(...rows.map(row => make("tr", {}, make("th", { scope: "row" }, nameOf(row)),
        make("td.fair-side.is-p", { "aria-hidden": "true" }, make("i.fair-bar"), make("i.fair-core"), make("i.fair-off")),
        make("td.fair-number"), make("td"))));
    }
    const drops = step < 4 ? -1 : now.toy ? pickFrom(rows.map(row => row.final), fallen)
      : rows.findIndex(row => row.id === now.repaired.token_id);
    for (const [i, row] of rows.entries()) {
      const [, cell, number, mark] = leftRows.children[i].children, shown = [row.p, row.left, row.final, row.final][step - 1];
      cell.style.setProperty("--size", shown ?? 0);
      cell.style.setProperty("--core", step === 1 ? row.core : 0);
      cell.style.setProperty("--off", step === 2 ? row.core : 0);
      number.textContent = probability(shown);
      mark.textContent = i === drops ? GLYPHS.correction : "";
      leftRows.children[i].classList.toggle("is-here", i === drops);
    }
    const most = now.rows.filter(row => row.p != null && row.q != null).reduce((a, b) => b.left > a.left ? b : a);
    const summed = step === 2 ? most.left > 0 : now.mass != null;
    write(leftSay, `fair_left_${step}${step === 4 ? (now.toy ? "_toy" : "") : summed ? "_sum" : ""}`, {
      overlap: probability(now.overlap), mass: probability(now.mass), core: probability(most.core), left: probability(most.left), p: probability(most.p),
      u: probability(now.toy ? fallen : now.repaired.u), token: tokenNode(drops < 0 ? most : rows[drops]) });
  }

  // -- a thousand draws
  const option = name => worded(make("option", { value: name }), "fair_rule_" + name);
  const rules = worded(make("select.fair-rules", {}, ...Object.entries(FAIR.lessons).map(([mark, names]) =>
    worded(make("optgroup", {}, ...names.map(option)), "fair_mark_" + mark, "label"))), "fair_rule", "aria-label");
  const mark = make("span.fair-mark"), rule = make("p.fair-say.is-short"), drawn = make("p.fair-say");
  const note = make("p.fair-note");
  const verdict = make("p.fair-verdict", { role: "status" }), legend = worded(make("p.fair-note"), "fair_draws_legend");
  const go = make("button.fair-button.fair-draw", { type: "button" });
  const reset = button("fair_draw_reset", () => { many = {}; draw(); });
  const take = button("fair_take_toy", () => { wish = "toy"; draw(); });
  const heads = ["drawn", "p", "law"].map(name => worded(make("th", { scope: "col" }), "fair_col_" + name));
  const bars = make("tbody"), shapes = ["box", "kept", "own", "line"];
  const chart = make("table.fair-draws", {}, make("thead", {}, make("tr", {}, make("td"), make("td"), ...heads)), bars);
  let many = {};                                                // the draws so far, of one pair under one rule

  rules.addEventListener("change", draw);
  go.addEventListener("click", async () => {
    const mine = many, { p, q } = mine;
    Object.assign(mine, { busy: true, error: null });
    draw();
    try {
      const { law, chance, tokens, kept } = await ask({ p, q, rule: mine.rule, n: FAIR.draws, seed: mine.seed + 1 });
      Object.assign(mine, { law, chance, seed: mine.seed + 1 });
      mine.waiting.push(...tokens.map((token, i) => [token, kept[i]]));
    } catch (error) { mine.error = error.message || say("fair_failed"); }
    grow(mine);
  });

  /** Lets draws that have arrived into the bars, some at a time; the pair or the rule may have been changed meanwhile. */
  function grow(mine) {
    for (const [token, kept] of mine.waiting.splice(0, calm.matches ? Infinity : FAIR.draws / FAIR.strides)) {
      mine.n++;
      mine.kept += kept;
      mine.counts[token][kept ? "kept" : "own"]++;
    }
    mine.busy = mine.waiting.length > 0;
    if (mine !== many) return;
    draw();
    if (mine.busy) setTimeout(() => grow(mine), FAIR.pause);
  }

  function drawDraws(now) {
    for (const node of [rules, mark, rule, go, reset, chart, drawn, verdict, legend]) node.hidden = !now.toy;
    take.hidden = now.toy;
    if (!now.toy) return write(note, "fair_only_toy");
    const name = rules.value, { p } = now.laws, of = JSON.stringify([now.laws, name]);
    const [kind] = Object.entries(FAIR.lessons).find(([, names]) => names.includes(name));
    if (many.of !== of)
      many = { of, ...now.laws, rule: name, n: 0, kept: 0, seed: 0, waiting: [], counts: p.map(() => ({ kept: 0, own: 0 })) };
    const { n, counts, busy } = many;
    mark.className = "fair-mark is-" + kind;
    mark.textContent = `${FAIR.signs[kind]} ${say("fair_mark_" + kind)}`;
    write(rule, "fair_told_" + name);
    write(go, busy ? "fair_draw_busy" : "fair_draw", { n: FAIR.draws });
    go.disabled = !ask || busy;
    reset.disabled = !n || busy;
    if (!bars.children.length) bars.append(...toy.names.map(name => make("tr", {}, make("th", { scope: "row" }, name),
      make("td.fair-hits", { "aria-hidden": "true" }, ...shapes.map(shape => make("i.fair-" + shape))),
      ...heads.map(() => make("td")))));
    const share = 1 - (1 - FAIR.sure) / counts.length;          // so that all of them together stay inside that surely
    let outside = false;
    for (const [i, { kept, own }] of counts.entries()) {
      const line = bars.children[i], [, hits, ...told] = line.children, [low, high] = bandOf(n, p[i], share);
      const out = n > 0 && (kept + own < low || kept + own > high);
      outside ||= out;
      line.classList.toggle("is-out", out);
      hits.classList.toggle("is-empty", !n);
      for (const [key, value] of [["low", low / n], ["high", high / n], ["share", kept / n], ["own", own / n]])
        hits.style.setProperty("--" + key, n ? value : 0);
      hits.style.setProperty("--p", p[i]);
      const values = [n ? (kept + own) / n : null, p[i], many.law?.[i]];
      for (const [j, cell] of told.entries()) cell.textContent = probability(values[j]);
    }
    const apart = sum(counts.map(({ kept, own }, i) => Math.abs((kept + own) / n - p[i]))) / 2;
    if (n) write(drawn, "fair_draws_told", { n, tv: probability(apart), noise: probability(noiseOf(n, p)), kept: many.kept,
                                             share: probability(many.kept / n), chance: probability(many.chance) });
    else drawn.replaceChildren();
    const over = n > 0 && !busy;
    verdict.dataset.outside = String(over && outside);
    verdict.textContent = many.error ?? (!over ? "" : outside ? "✗ " + say("fair_outside") : "✓ " + say("fair_inside"));
    write(note, ask ? "fair_drawn_by" : "fair_offline", { seed: many.seed || 1 });
  }

  // -- the settings first
  const sliders = Object.entries(FAIR.sliders).map(([name, [min, max, grain]]) => {
    const input = worded(make("input", { type: "range", min, max, step: grain }), "fair_" + name, "aria-label");
    const told = make("output");
    input.addEventListener("input", () => { toy.settings[name] = Number(input.value); draw(); });
    return { name, input, told, node: make("label.fair-slider", {}, worded(make("span"), "fair_" + name), input, told) };
  });
  const before = mirrorTable(R), after = mirrorTable(R), first = make("p.fair-say");
  const back = button("fair_settings_reset", () => { Object.assign(toy.settings, FAIR.off); draw(); });
  const knobs = make("div.fair-sliders", {}, ...sliders.map(slider => slider.node), back);

  function drawSettings(now) {
    const settings = now.toy ? toy.settings : R.header.sampling;
    const idle = name => name !== "temperature" && settings[name] === FAIR.off[name];
    const shown = name => idle(name) ? say("fair_off") : String(settings[name]);
    knobs.hidden = !now.toy;
    for (const { name, input, told } of sliders) {
      input.value = toy.settings[name];
      told.textContent = shown(name);
    }
    back.disabled = !warped();
    const bare = (row, i) => ({ ...row, p: toy.p[i], q: toy.q[i], core: Math.min(toy.p[i], toy.q[i]) });
    before.draw({ ...(now.toy ? { rows: now.rows.map(bare) } : now.own), key: now.key, title: "fair_before" });
    after.draw({ rows: now.rows, rest: now.toy ? null : now.rest, key: now.key, title: "fair_after" });
    const cut = now.toy ? toy.names.filter((_, i) => toy.p[i] > 0 && now.laws.p[i] === 0).join(", ") : "";
    const values = { temperature: shown("temperature"), k: shown("top_k"), top: shown("top_p") };
    const told = [["fair_settings_" + (now.toy ? "toy" : "run"), values],
      settings.temperature < 1e-5 && ["fair_settings_zero"], cut && ["fair_settings_cut", { tokens: cut }]];
    first.replaceChildren(...told.filter(Boolean).flatMap(([key, values = {}]) => [...fill(say(key), values), " "]));
  }

  // -- all of it
  const parts = choiceOf(R, tongue, "part", ["left", "draws", "before"], value => { part = value; draw(); });
  const panels = {
    left: [[steps.node, leftTable, leftSay, elsewhere], drawLeft],
    draws: [[group(rules, mark), rule, group(go, reset), chart, drawn, verdict, legend, note, take], drawDraws],
    before: [[knobs, before.node, after.node, first], drawSettings],
  };
  for (const panel of Object.values(panels)) panel[0] = make("div.fair-panel", {}, ...panel[0]);
  const body = make("div.fair-body", {},
    make("div.fair-basis", {}, table.node, presets, frozen, overlap, ruler, judged, redraws, tally),
    make("div.fair-deep", {}, parts.node, ...Object.values(panels).map(panel => panel[0])));
  const node = make("section.view-fair", {}, make("header.fair-head", {}, sources.node, title, badge), hint, body);

  function draw() {
    const now = facts(), own = R.chosen() && !guessOf(R.chosen());
    sources.set(source());
    hint.hidden = !own && (wish === "toy" || source() === "run" && Boolean(now));
    write(hint, own ? "fair_hint_own" : "fair_hint");
    body.hidden = badge.hidden = !now;
    title.replaceChildren();
    if (!now) return;
    const { badge: kind, machine = "?", started = "" } = now.toy ? { badge: "toy" } : R.header;
    badge.className = "fair-badge is-" + kind;
    write(badge, now.toy ? "fair_toy" : "badge_" + kind, { machine, date: started.slice(0, 10) });
    if (!now.toy) title.append(tokenNode(now), make("span.tape-fate.is-" + now.verdict, {},
      make("span.tape-glyph", { "aria-hidden": "true" }, GLYPHS[now.verdict]), say("fate_" + now.verdict)),
      make("small", {}, R.tell("round", { round: now.index + 1 })));
    drawLaws(now);
    drawRuler(now);
    parts.set(part);
    for (const [name, [panel, paint]] of Object.entries(panels)) {
      panel.hidden = name !== part;
      if (name === part) paint(now);
    }
  }

  const begin = () => { wish = last = null; };
  return { name: "fair", node, begin, point: draw, speak: tongue.speak, keys: { r: () => redraw(1) } };
}
