// A chart of shares by position in the draft: what the views of fading and of confidence have in common.

const FIELD = { wide: 360, tall: 128, left: 30, top: 8 };           // drawing units

/** A figure with a title, a field from 0 to 1 over `places` positions, and a note below. */
function shareChart(name) {
  const title = make("b"), note = make("p.curves-note"), head = make("figcaption", {}, title);
  const field = svg("svg", { viewBox: `0 0 ${FIELD.wide} ${FIELD.tall + 40}`, role: "img" });
  const height = share => FIELD.top + (1 - share) * (FIELD.tall - FIELD.top);

  /** An empty field; gives the width of a position and its middle. */
  function frame(places) {
    const step = (FIELD.wide - FIELD.left) / Math.max(places, 1), middle = i => FIELD.left + (i + 0.5) * step;
    field.replaceChildren(...[0, 0.5, 1].flatMap(share => [
      svg("line.curves-rule", { x1: FIELD.left, x2: FIELD.wide, y1: height(share), y2: height(share) }),
      svg("text.curves-scale", { x: FIELD.left - 6, y: height(share) + 4 }, share === 0.5 ? ".5" : String(share))]));
    for (let i = 0; i < places; i++) field.append(svg("text.curves-place", { x: middle(i), y: FIELD.tall + 14 }, String(i + 1)));
    return { step, middle };
  }
  return { node: make("figure.curves-figure.is-" + name, {}, head, field, note), head, title, note, field, height, frame };
}
