// Keep this run: a link to what is shown, files of it, a file opened; the run's hash, and whether a linked run repeated exactly.

function mountKeep(R, element, link, views, open) {
  const { worded, speak } = speller(R);
  const note = make("p.keep-note", { role: "status", "aria-live": "polite" }), hash = make("p.keep-hash");
  const stamp = () => `specscope-${R.header.method}-${R.header.id}`.replace(/[^\w-]/g, "").slice(0, 60);
  let place = null, told = null;                                 // what the link says of this run; the sentence in the note

  const tell = (key, values = {}) => { told = key && { key, values }; key ? R.write(note, key, values) : note.replaceChildren(); };
  const button = (name, act) => {
    const node = worded(make("button.keep-button", { type: "button", "data-keep": name }), "keep_" + name);
    node.addEventListener("click", act);
    return node;
  };
  const group = (name, ...nodes) => make("div.keep-group", { role: "group" }, worded(make("b"), "keep_" + name), ...nodes);

  // -- files
  const saved = (ending, content) => async () => {
    if (!R.header) return;
    const name = `${stamp()}.${ending}`;
    try { save(name, await content(), "text/plain"); tell("saved", { name }); } catch { tell("save_failed"); }
  };
  const files = [["trace", "jsonl", () => linesOf(R)], ["table", "csv", () => tableOf(R)], ["page", "html", () => pageOf(R)],
                 ["drawing", "svg", () => drawingOf(R, element)], ["picture", "png", () => pointsOf(R, element)]]
    .map(([name, ending, content]) => button(name, saved(ending, content)));
  const chosen = make("input", { type: "file", accept: ".jsonl", hidden: "", tabindex: "-1" });
  const take = async file => { if (file) { const { key, values } = await openFile(R, file); tell(key, values); } };
  chosen.addEventListener("change", async () => { await take(chosen.files[0]); chosen.value = ""; });
  const dropping = event => event.dataTransfer?.types.includes("Files");
  for (const event of ["dragenter", "dragover"])
    element.addEventListener(event, event => { if (dropping(event)) { event.preventDefault(); element.classList.add("is-dropping"); } });
  element.addEventListener("dragleave", event => { if (!element.contains(event.relatedTarget)) element.classList.remove("is-dropping"); });
  element.addEventListener("drop", event => {
    if (!dropping(event)) return;
    event.preventDefault();
    element.classList.remove("is-dropping");
    take(event.dataTransfer.files[0]);
  });

  // -- links
  const shown = () => ({ header: R.header, hash: R.end?.hash, step: R.at, pins: R.pins, open: open(), signs: R.signs, language: R.language });

  /** To the clipboard; where that is denied, into a field from which it can be taken by hand. */
  async function copy(address) {
    history.replaceState(history.state, "", address);
    try {
      await navigator.clipboard.writeText(address);
      tell("copied");
    } catch {
      field.value = address;
      byHand.showModal();
      field.select();
      tell("copy_by_hand");
    }
  }
  const closing = dialog => {
    dialog.append(worded(make("button.keep-button", { type: "button" }), "close"));
    dialog.lastChild.addEventListener("click", () => dialog.close());
    dialog.addEventListener("click", event => { if (event.target === dialog) dialog.close(); });
    return dialog;
  };
  const field = worded(make("input.keep-address", { readonly: "", type: "text" }), "keep_address", "aria-label");
  const byHand = closing(make("dialog.keep-dialog", {}, worded(make("p"), "copy_by_hand"), field));

  // a lesson: the same link with names of what is hidden
  const lesson = link && lessonDialog();
  function lessonDialog() {
    const boxes = [], address = worded(make("input.keep-address", { readonly: "", type: "text" }), "keep_address", "aria-label");
    const box = (name, words, on) => {
      const check = make("input", { type: "checkbox", value: name, ...on && { checked: "" } });
      boxes.push(check);
      return make("label", {}, check, worded(make("span"), words));
    };
    const part = (title, names) => make("fieldset", {}, worded(make("legend"), title), ...Object.entries(names).map(([name, words]) => box(name, words, link.hidden.has(name) && !link.teach)));
    const large = box("teach", "lesson_teach", link.teach);
    const send = worded(make("button.keep-button", { type: "button" }), "keep_copy");
    const dialog = closing(make("dialog.keep-dialog.keep-lesson", {}, worded(make("h3"), "keep_lesson"), worded(make("p"), "lesson_hint"), large,
      make("div.keep-boxes", {}, part("lesson_page", link.hideable.page), part("lesson_views", Object.fromEntries(views.map(name => [name, "view_" + name]))),
        part("lesson_viewer", link.hideable.viewer)), address, send));
    const write = () => {
      const hide = boxes.filter(check => check.checked && check.value !== "teach").map(check => check.value).join();
      address.value = link.address(shown(), { hide, teach: boxes.find(check => check.value === "teach").checked || null });
    };
    dialog.addEventListener("change", write);
    send.addEventListener("click", async () => {
      try { await navigator.clipboard.writeText(address.value); dialog.close(); tell("copied"); } catch { address.focus(); address.select(); tell("copy_by_hand"); }
    });
    return { dialog, show() { write(); dialog.showModal(); } };
  }

  const node = make("section.keep", {},
    ...link ? [group("share", button("copy", () => copy(link.address(shown()))), button("lesson", () => lesson.show()))] : [],
    group("save", ...document.getElementById("viewer-script") ? files : files.filter(file => file.dataset.keep !== "page")),
    group("load", button("open", () => chosen.click()), chosen), make("div.keep-told", {}, hash, note), byHand, ...link ? [lesson.dialog] : []);
  worded(node, "keep", "aria-label");

  /** The run's hash; beside it, once a linked run has ended here, whether it is the link's. */
  function stampHash() {
    const own = R.end?.hash, given = R.header?.badge === "measured" && place?.hash;
    const verdict = !own || !given ? [] : own === given ? [["hash_same", {}]] : [["hash_differs", { given: given.slice(0, 8) }]];
    hash.replaceChildren(...fill(R.say(own ? "hash" : "hash_none"), { hash: String(own).slice(0, 8) }), ...verdict.flatMap(([key, values]) => [" ", ...fill(R.say(key), values)]));
    hash.dataset.same = verdict.length ? String(own === given) : "";
    hash.title = R.say("hash_what");
  }

  if (link?.ignored.length) tell("link_ignored", { names: link.ignored.join(", ") });
  return {
    node, keys: link && !link.hidden.has("keep") ? { s: () => copy(link.address(shown())) } : {},
    begin() { place = link?.place(R.header) ?? null; stampHash(); },
    arrive() {
      stampHash();
      const { step, pins } = place ?? {};
      const due = step === undefined ? pins?.length && R.final : step < R.beats.length || R.final;
      if (!due) return;
      R.restore({ step, pins });
      place = { hash: place.hash };
    },
    speak() { speak(); stampHash(); if (told) R.write(note, told.key, told.values); },
  };
}
