// The card: the numbers of one token, or of two side by side, and both laws as mirrored bars.

const SYMBOLS = new Set(["p", "q", "ratio", "u"]);                // of the rule
const PLAIN = new Set([...SYMBOLS, "left", "confidence"]);      // told at every depth
const TOP = 7;                                                  // bars
const NEAR = 0.125;                                             // logits: two steps of bfloat16 around 16

function mountCard(R) {
  const { say, tell } = R;
  const { worded, speak } = speller(R);
  let seen = "";                                                // drawn when it changes
  const node = worded(make("section.tape-card", { id: "view-token" }), "card", "aria-label");

  /** Up to two chosen tokens; as long as none is chosen, the one that the playhead has just seen decided. */
  function draw() {
    const refs = R.pins.filter(pin => !same(pin, R.shown));
    if (R.shown) refs.push(R.shown);
    const there = refs.slice(-2).filter(ref => R.rounds[ref.round]), decided = !there.length && R.decided();
    const shown = decided ? [decided] : there, key = JSON.stringify([R.id, R.language, R.pins, shown, shown.map(R.known)]);
    if (key === seen) return;
    seen = key;
    node.dataset.cards = there.length;
    node.replaceChildren(...there.length ? [] : [make("p.tape-hint", {}, say("card_hint"))], ...shown.map(cardOf));
  }

  function cardOf(ref) {
    const whole = R.rounds[ref.round], known = R.known(ref), round = known ? whole : unchecked(whole);
    const token = tokenAt(whole, ref.slot), fate = known ? fateIn(round, ref.slot) : "guess";
    const kept = R.pins.some(pin => same(pin, ref)) ? " · " + say("pinned") : "";
    const title = make("h3.tape-title.is-" + fate, {}, make("span.tape-token", {}, pieceNode(round, token)),
      make("span.tape-fate", {}, make("span.tape-glyph", { "aria-hidden": "true" }, GLYPHS[fate]), say("fate_" + fate)),
      make("small", {}, `${tell("round", { round: ref.round + 1 })} · id ${token}` + kept));
    const own = ref.slot === "own", proof = own ? [] : formula(round.draft[ref.slot], round.verify[ref.slot]);
    return make("article.tape-one", {}, title, own ? ownFacts(round) : draftFacts(round, ref.slot), ...proof,
      ...round.draft[ref.slot]?.confidence == null ? [] : [make("p.card-note", {}, say("card_confidence"))],
      make("div.tape-laws", {}, ...lawsOf(round, ref.slot, token)));
  }

  /** A round as it was before the check: nothing of it is told before the playhead has seen it. */
  const unchecked = round => ({ ...round, verify: round.verify.map(({ slot }) => ({ slot })), final: null });

  /** What the rule needs; the rest where the proof is asked for. */
  const facts = list => make("dl.tape-facts", {}, ...list.map(([key, value]) => make(PLAIN.has(key) ? "div" : "div.proof",
    SYMBOLS.has(key) ? { "data-symbol": key, tabindex: "0" } : {}, make("dt", {}, say("fact_" + key)), make("dd", {}, value))));

  /** The rule with this token's numbers; every symbol lights the fact that it stands for, and is lit by it. */
  function formula(d, v) {
    if (v.u == null || R.header.rule !== "exact") return [];
    const symbol = (key, text) => make("button.card-symbol", { type: "button", "data-symbol": key }, text);
    const sign = v.verdict === "kept" ? "<" : "≥";
    return [make("p.card-formula.proof", {}, symbol("u", "u"), ` = ${probability(v.u)} ${sign} `, symbol("ratio", "min(1, p/q)"), " = min(1, ",
      symbol("p", "p"), ` ${probability(v.p_tok)} / `, symbol("q", "q"), ` ${probability(d.q_tok)}) = ${probability(v.ratio)} → `, say("fate_" + v.verdict))];
  }
  const light = on => event => {
    const name = event.target.closest?.("[data-symbol]")?.dataset.symbol, one = event.target.closest?.(".tape-one");
    if (name) for (const part of one.querySelectorAll(`[data-symbol="${name}"]`)) part.classList.toggle("is-lit", on);
  };
  for (const [event, on] of [["pointerover", true], ["focusin", true], ["pointerout", false], ["focusout", false]]) node.addEventListener(event, light(on));

  /** By how much the target's best logit leads; beside the number format's grain a small lead is a near tie. */
  const gap = row => ["gap", row.p_gap == null ? "–" : row.p_gap.toFixed(3) + (row.p_gap <= NEAR ? " " + say("near_tie") : "")];

  function draftFacts(round, slot) {
    const d = round.draft[slot], v = round.verify[slot];
    const heads = [d.confidence != null && ["confidence", probability(d.confidence)], d.bias != null && ["bias", (d.bias < 0 ? "−" : "+") + Math.abs(d.bias).toFixed(2)]];
    return facts([["p", probability(v.p_tok)], ["q", probability(d.q_tok)], ["ratio", probability(v.ratio)], ["u", probability(v.u)],
      ["p_rank", v.p_rank ?? "–"], ["q_rank", d.q_rank ?? "–"], ["entropy", v.p_entropy == null ? "–" : v.p_entropy.toFixed(2)], gap(v),
      ...heads.filter(Boolean)]);
  }

  function ownFacts(round) {
    const f = round.final ?? {}, token = ownEmit(round).token_id;
    const chance = list => list ? probability(list.find(([id]) => id === token)?.[1]) : "–";
    return facts([["p", chance(f.p_top)], ["left", chance(f.residual_top)], ["u", probability(f.u)],
      ["entropy", f.p_entropy == null ? "–" : f.p_entropy.toFixed(2)], gap(f)]);
  }

  function lawsOf(round, slot, token) {
    const law = (top, others, chance) => ({ top, others, token, chance });
    if (slot === "own") {
      const f = round.final ?? {};
      return [lawOf(round, token, "law_decides", ["law_residual", "law_p"], law(f.residual_top, f.residual_rest), law(f.p_top, f.p_rest)),
              lawOf(round, token, "law_own", ["", "law_p"], law(), law(f.p_own_top, f.p_own_rest))];
    }
    const d = round.draft[slot], v = round.verify[slot], heads = ["law_q", "law_p"];
    return [lawOf(round, token, "law_decides", heads, law(d.q_top, d.q_rest, d.q_tok), law(v.p_top, v.p_rest, v.p_tok)),
            lawOf(round, token, "law_own", heads, law(d.q_own_top, d.q_own_rest, d.q_own_tok), law(v.p_own_top, v.p_own_rest, v.p_own_tok))];
  }

  function lawOf(round, token, title, heads, left, right) {
    const { rows, rest } = sharedRows([token], { left, right }, TOP), there = { left: Boolean(left.top), right: Boolean(right.top) };
    const line = (name, chances, here) => make(here ? "tr.is-here" : "tr", {}, side(chances, "left"), make("th", { scope: "row" }, name), side(chances, "right"));
    const side = (chances, where) => there[where] && chances ? bar(chances[where], where) : make("td.at-" + where);
    const body = rows.map(row => line(pieceNode(round, row.id), row, row.id === token));
    while (body.length < TOP) body.push(line("\u00a0"));
    body.push(line(say("law_rest"), rest));
    const head = (key, where) => make("th", { scope: "col" }, there[where] || where === "right" ? say(key) : "");
    return make("table.tape-law", {}, make("caption", {}, say(title)),
      make("thead", {}, make("tr", {}, head(heads[0], "left"), make("td"), head(heads[1], "right"))), make("tbody", {}, ...body));
  }

  function bar(value, where) {
    const cell = make("td.at-" + where, {}, make("i", { "aria-hidden": "true" }), make("span", {}, probability(value)));
    cell.style.setProperty("--size", value ?? 0);
    return cell;
  }

  return { name: "token", node, begin: draw, draw, point: draw, speak };
}
