// Two small charts under the tape: how acceptance falls along the draft, and how sure the drafter was of the round in view.
// Both only draw: counts come ready with every round (engine/metrics.py), confidence with every drafted token.

const WIDE = 360, TALL = 128, LEFT = 30, TOP_EDGE = 8;               // drawing units of a chart's field

function svg(tag, attributes = {}, ...children) {
  const [name, ...classes] = tag.split(".");
  const node = document.createElementNS("http://www.w3.org/2000/svg", name);
  if (classes.length) node.setAttribute("class", classes.join(" "));
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

/** 95 % interval of a share (Wilson 1927). */
function interval(hits, n) {
  const z = 1.96, p = hits / n, middle = (p + z * z / (2 * n)) / (1 + z * z / n);
  const half = z * Math.sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / (1 + z * z / n);
  return [Math.max(0, middle - half), Math.min(1, middle + half)];
}

function mountCurves(words) {
  const say = key => words()[key];
  const state = { mode: "survival", seen: "" };
  const decay = chart("decay"), sure = chart("sure");
  const modes = ["survival", "conditional"].map(mode => {
    const button = make("button.curves-mode", { type: "button" });
    button.addEventListener("click", () => { state.mode = mode; state.seen = ""; draw(); });
    return [mode, button];
  });
  decay.head.append(make("span.curves-modes", { role: "group" }, ...modes.map(pair => pair[1])));
  let now = {};

  function chart(name) {
    const title = make("b"), note = make("p.curves-note"), field = svg("svg", { viewBox: `0 0 ${WIDE} ${TALL + 40}`, role: "img" });
    const head = make("figcaption", {}, title);
    return { name, title, note, field, head, node: make("figure.curves-figure.is-" + name, {}, head, field, note) };
  }

  const height = share => TOP_EDGE + (1 - share) * (TALL - TOP_EDGE);

  function frame(field, places) {
    const step = (WIDE - LEFT) / Math.max(places, 1);
    field.replaceChildren(...[0, 0.5, 1].flatMap(share => [
      svg("line.curves-rule", { x1: LEFT, x2: WIDE, y1: height(share), y2: height(share) }),
      svg("text.curves-scale", { x: LEFT - 6, y: height(share) + 4 }, share === 0.5 ? ".5" : String(share))]));
    return { step, middle: i => LEFT + (i + 0.5) * step };
  }

  /** One bar a position: rounds that kept it, of those that drafted (or tested) it. */
  function drawDecay(counts, places) {
    for (const [mode, button] of modes) {
      button.textContent = say("decay_" + mode);
      button.setAttribute("aria-pressed", String(mode === state.mode));
    }
    decay.title.textContent = say("decay_title");
    const whole = counts ? (state.mode === "survival" ? counts.offered : counts.reached) : [];
    const { step, middle } = frame(decay.field, places), told = [];
    for (let i = 0; i < places; i++) {
      const x = middle(i), n = whole[i] ?? 0, hits = counts?.kept[i] ?? 0;
      decay.field.append(svg("text.curves-place", { x, y: TALL + 14 }, String(i + 1)));
      if (!n) continue;
      const share = hits / n, [low, high] = interval(hits, n), half = Math.min(16, step * 0.32);
      told.push(`${i + 1}: ${hits}/${n}`);
      decay.field.append(
        svg("rect.curves-bar", { x: x - half, y: height(share), width: 2 * half, height: height(0) - height(share) }),
        svg("path.curves-whisker", { d: `M${x} ${height(low)}V${height(high)}M${x - 4} ${height(low)}h8M${x - 4} ${height(high)}h8` }),
        svg("text.curves-count", { x, y: TALL + 27 }, step > 34 ? `${hits}/${n}` : String(hits)),
        ...(step > 34 ? [] : [svg("text.curves-count", { x, y: TALL + 38 }, String(n))]));
    }
    decay.field.setAttribute("aria-label", [say("decay_" + state.mode), ...told].join(", "));
    decay.note.textContent = told.length ? say(`decay_${state.mode}_note`) : say("decay_empty");
  }

  /** Dots: confidence before the draw; line: that all up to here are kept; below: what became of each. */
  function drawSure(round, beat, places, threshold) {
    sure.title.textContent = say("sure_title");
    const { middle } = frame(sure.field, places), told = [];
    const shown = (round?.draft ?? []).slice(0, beat?.shown ?? 0).filter(d => d.confidence != null);
    let chance = 1, path = "";
    for (let i = 0; i < places; i++) sure.field.append(svg("text.curves-place", { x: middle(i), y: TALL + 14 }, String(i + 1)));
    for (const d of shown) {
      const x = middle(d.slot), fate = fateOf(round, d.slot, beat);
      chance *= d.confidence;
      path += `${path ? "L" : "M"}${x} ${height(chance)}`;
      told.push(`${d.slot + 1}: ${d.confidence.toFixed(2)} ${say("fate_" + fate) ?? ""}`);
      sure.field.append(svg("text.curves-fate.is-" + fate, { x, y: TALL + 32 }, GLYPHS[fate] ?? ""));
    }
    if (threshold) sure.field.append(svg("line.curves-threshold", { x1: LEFT, x2: WIDE, y1: height(threshold), y2: height(threshold) }));
    if (path) sure.field.append(svg("path.curves-line", { d: path }));
    for (const d of shown) sure.field.append(svg("circle.curves-dot", { cx: middle(d.slot), cy: height(d.confidence), r: 4 }));
    sure.field.setAttribute("aria-label", [say("sure_title"), ...told].join(", "));
    const none = round?.draft.length && round.draft.every(d => d.confidence == null);
    sure.note.textContent = none ? say("sure_none") : say("sure_note");
  }

  function draw() {
    const { counts, round, beat, places = 1, threshold = 0, run } = now;
    const key = [run, counts?.rounds, beat?.round, beat?.shown, beat?.kind, beat?.judged, places, state.mode, say("decay_title")].join();
    if (key === state.seen) return;
    state.seen = key;
    drawDecay(counts, places);
    drawSure(round, beat, places, threshold);
  }

  return { node: make("div.curves", {}, decay.node, sure.node), show: news => { now = news; draw(); } };
}
