// Keep this run: a link to what is shown, files of it, a file opened; the run's hash, and whether it is that of the link.

function mountKeep(R, element, link, views, places) {
  const { worded, speak } = speller(R);
  const note = make("p.keep-note", { role: "status", "aria-live": "polite" }), hash = make("p.keep-hash");
  const stamp = () => `specscope-${R.header.method}-${R.header.id}`.replace(/[^\w-]/g, "").slice(0, 60);
  let place = null, told = null;                                 // what the link says of this run; the sentence in the note

  const tell = (...sentence) => R.write(note, ...told = sentence);
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
    element.addEventListener(event, event => {
      if (!dropping(event)) return;
      event.preventDefault();
      element.classList.add("is-dropping");
    });
  element.addEventListener("dragleave", event => {
    if (!element.contains(event.relatedTarget)) element.classList.remove("is-dropping");
  });
  element.addEventListener("drop", event => {
    if (!dropping(event)) return;
    event.preventDefault();
    element.classList.remove("is-dropping");
    take(event.dataTransfer.files[0]);
  });

  // -- links
  const shown = () => {
    const { header, end, at: step, pins, signs, language } = R;
    return { header, hash: end?.hash, step, pins, signs, language, ...places() };
  };

  /** Calls denied() where the clipboard is closed to the page, as inside most frames. */
  async function copy(address, denied) {
    try {
      await navigator.clipboard.writeText(address);
      tell("copied");
      return true;
    } catch { denied(); }
  }

  /** The link to what is shown goes into the clipboard and the address bar, or into a field to take it from by hand. */
  function share() {
    field.value = link.address(shown());
    try { history.replaceState(history.state, "", field.value); } catch { /* a frame without an address of its own */ }
    copy(field.value, () => { byHand.showModal(); field.select(); });
  }
  const field = worded(make("input.keep-address", { readonly: "", type: "text" }), "keep_address", "aria-label");
  const byHand = closing(worded, make("dialog.keep-dialog", {}, worded(make("p"), "copy_by_hand"), field));

  /** A lesson: the same link with names of what is hidden. The dialog is there only while it is open. */
  function lesson() {
    const boxes = [], address = field.cloneNode(), hint = make("p.keep-hint", { role: "status" }, R.say("lesson_hint"));
    const box = (name, words, on) => {
      boxes.push(make("input", { type: "checkbox", value: name, ...on && { checked: "" } }));
      return make("label", {}, boxes.at(-1), make("span", {}, R.say(words)));
    };
    const part = (title, names) => make("fieldset", {}, make("legend", {}, R.say(title)),
      make("div", {}, ...Object.entries(names).map(([name, words]) => box(name, words, link.asked.has(name)))));
    const large = box("teach", "lesson_teach", link.teach), [teach] = boxes.splice(0);
    const send = make("button.keep-button", { type: "button" }, R.say("keep_copy"));
    const seen = Object.fromEntries(views.map(name => [name, "view_" + name]));
    const dialog = closing(worded, make("dialog.keep-dialog", {}, make("h3", {}, R.say("lesson_title")), large, hint,
      make("div.keep-boxes", {}, part("lesson_page", link.hideable.page),
        make("div", {}, part("lesson_views", seen), part("lesson_viewer", link.hideable.viewer))),
      address), send);
    const write = () => {
      const hide = boxes.filter(check => check.checked).map(check => check.value).join();
      address.value = link.address(shown(), { hide, teach: teach.checked || null });
    };
    dialog.addEventListener("change", write);
    dialog.addEventListener("close", () => dialog.remove());
    send.addEventListener("click", async () => {
      if (await copy(address.value, () => { R.write(hint, "copy_by_hand"); address.select(); })) dialog.close();
    });
    node.append(dialog);
    write();
    dialog.showModal();
  }

  const node = make("section.keep", {},
    ...link ? [group("share", button("copy", share), button("lesson", lesson))] : [],
    group("save", ...document.getElementById("viewer-script") ? files : files.filter(file => file.dataset.keep !== "page")),
    group("load", button("open", () => chosen.click()), chosen), make("div.keep-told", {}, hash, note), byHand);
  worded(node, "keep", "aria-label");

  /** The run's hash; beside it, once a linked run has ended here, whether it is the link's. */
  function stampHash() {
    const own = R.end?.hash, given = R.header?.badge === "measured" && place?.hash;
    const short = text => String(text).slice(0, 8), compared = own && given;
    hash.replaceChildren(...fill(R.say(own ? "hash" : "hash_none"), { hash: short(own) }),
      ...compared ? [" ", ...fill(R.say(own === given ? "hash_same" : "hash_differs"), { given: short(given) })] : []);
    hash.dataset.same = compared ? String(own === given) : "";
    hash.title = R.say("hash_what");
  }

  if (link?.ignored.length) tell("link_ignored", { names: link.ignored.join(", ") });
  return {
    node, keys: link && !link.hidden.has("keep") ? { s: share } : {},
    begin() { place = link?.place(R.header) ?? null; stampHash(); },
    arrive() {
      stampHash();
      const { step, pins } = place ?? {};
      const due = step === undefined ? pins?.length && R.final : step < R.beats.length || R.final;
      if (!due) return;
      R.restore({ step, pins });
      place = { hash: place.hash };
    },
    speak() { speak(); stampHash(); if (told) tell(...told); },
  };
}
