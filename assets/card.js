// The card: the numbers of one token, or of two side by side, and both laws as mirrored bars.

const SYMBOLS = new Set(["p", "q", "ratio", "u"]);                // of the rule
const TOP = 7;                                                  // bars
const UNTOLD = "–";                                             // a chance that only "all others" holds
const NEAR = 0.125;                                             // logits: two steps of bfloat16 around 16

function mountCard(R) {
  const { say, tell } = R;
  const { worded, speak } = speller(R);
  const node = worded(make("section.tape-card", { id: "view-token" }), "card", "aria-label");

  function draw() {
    const refs = R.pins.filter(pin => !same(pin, R.shown));
    if (R.shown) refs.push(R.shown);
    const there = refs.slice(-2).filter(ref => R.rounds[ref.round]);
    node.dataset.cards = there.length;
    node.replaceChildren(...(there.length ? there.map(cardOf) : [make("p.tape-hint", {}, say("card_hint"))]));
  }

  function cardOf(ref) {
    const round = R.rounds[ref.round], token = tokenAt(round, ref.slot), fate = fateIn(round, ref.slot);
    const kept = R.pins.some(pin => same(pin, ref)) ? " · " + say("pinned") : "";
    const title = make("h3.tape-title.is-" + fate, {}, make("span.tape-token", {}, pieceNode(round, token)),
      make("span.tape-fate", {}, make("span.tape-glyph", { "aria-hidden": "true" }, GLYPHS[fate]), say("fate_" + fate)),
      make("small", {}, `${tell("round", { round: ref.round + 1 })} · id ${token}` + kept));
    const own = ref.slot === "own", proof = own ? [] : formula(round.draft[ref.slot], round.verify[ref.slot]);
    return make("article.tape-one", {}, title, own ? ownFacts(round) : draftFacts(round, ref.slot), ...proof,
      make("div.tape-laws", {}, ...lawsOf(round, ref.slot, token)));
  }

  const facts = list => make("dl.tape-facts", {}, ...list.map(([key, value]) =>
    make("div", SYMBOLS.has(key) ? { "data-symbol": key, tabindex: "0" } : {}, make("dt", {}, say("fact_" + key)), make("dd", {}, value))));

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
    const body = shown.map(id => line(pieceNode(round, id), left && (l.get(id) ?? UNTOLD), right && (r.get(id) ?? UNTOLD), id === token));
    while (body.length < TOP) body.push(line("\u00a0", null, null, false));
    body.push(line(say("law_rest"), rest(left, l, leftRest ?? 0), rest(right, r, rightRest ?? 0), false));
    const head = key => make("th", { scope: "col" }, key && (left || key !== sides.left) ? say(key) : "");
    return make("table.tape-law", {}, make("caption", {}, say(title)),
      make("thead", {}, make("tr", {}, head(sides.left), make("td"), head(sides.right))), make("tbody", {}, ...body));
  }

  function side(value, where) {
    const cell = make("td.at-" + where);
    if (value == null) return cell;
    cell.style.setProperty("--size", value === UNTOLD ? 0 : value);
    cell.append(make("i", { "aria-hidden": "true" }), make("span", {}, value === UNTOLD ? value : probability(value)));
    return cell;
  }

  return { name: "token", node, begin: draw, point: draw, speak };
}
