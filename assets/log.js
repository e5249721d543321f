// The log: the sentences of all rounds that are over at the playhead, as a list to read at one's own pace.

function mountLog(R) {
  const { worded, speak } = speller(R);
  const list = worded(make("ol.tape-entries", { tabindex: "0", role: "list" }), "log", "aria-label");
  const node = make("details.tape-log", {}, worded(make("summary"), "log_open"), list);

  /** What is closed is not written; what is open grows and shrinks with the playhead. */
  function draw() {
    if (!node.open) return;
    const over = R.over(), end = list.scrollHeight - list.scrollTop - list.clientHeight < 12;
    while (list.children.length > over) list.lastChild.remove();
    while (list.children.length < over) list.append(make("li", {}, ...sentenceOf(R, list.children.length)));
    if (end) list.scrollTop = list.scrollHeight;
  }
  const again = () => { list.replaceChildren(); draw(); };
  node.addEventListener("toggle", draw);
  return { node, begin: again, draw, speak() { speak(); again(); } };
}
