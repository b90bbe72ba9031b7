// The player of the tab "Watch" and the downloads. A run arrives as two texts in which every token carries its step;
// which of them are shown, and which are new, is decided here, so that going back and forth asks nobody.
(() => {
  const view = { run: null, since: 0, shown: 0, playing: false, cancelled: false, timer: null };
  const pace = 300; // milliseconds for a step
  const frames = 36; // in which a text is shown at most: of many steps, several at a time

  const sections = () => [...document.querySelectorAll("#watch-runs section")];
  const taken = () => Math.max(0, ...sections().map((section) => +section.dataset.taken));
  const finished = () => sections().every((section) => section.dataset.finished === "1");
  const coming = () => !finished() && document.querySelector("#watch-status progress") !== null; // unless cancelled
  const plural = (count, noun) => `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;

  function draw() {
    const run = sections()[0]?.dataset.run ?? null;
    if (run !== view.run) { // another text: it is followed from its beginning, as it comes
      stop();
      view.run = run;
      view.cancelled = false;
      show(0);
      if (run !== null) start();
    }
    if (view.cancelled) show(taken()); // a step that was on its way when it was cancelled may come after that
    for (const section of sections()) {
      const own = Math.min(view.shown, +section.dataset.taken);
      for (const token of section.querySelectorAll("[data-step]")) {
        const step = +token.dataset.step;
        // When an answer was found to be over is not recorded: what was not needed after it is empty at the last step.
        const open = step === -3 || step >= own || (step === -2 && own < +section.dataset.taken);
        const text = open ? "_" : token.dataset.text;
        const fresh = !open && step >= Math.min(view.since, own - 1);
        if (token.textContent !== text || token.classList.contains("new") !== fresh) {
          token.replaceChildren(fresh ? Object.assign(document.createElement("mark"), { textContent: text }) : text);
        }
        token.classList.toggle("open", open);
        token.classList.toggle("new", fresh);
      }
      const nll = section.dataset.nll.split(" ").map(Number);
      const [valid, scored] = [section.dataset.valid, section.dataset.scored].map((list) => list.split(" ").map(Number));
      const bits = own ? nll[own - 1] / Math.max(scored[own - 1], 1) / Math.log(2) : 0;
      const count = section.querySelector(".count");
      const words = own
        ? `${plural(own, "evaluation")} · ${plural(valid[own - 1], "token")} · ${(valid[own - 1] / own).toFixed(2)} tokens per evaluation · ${bits.toFixed(3)} bits per token`
        : "nothing revealed yet";
      if (count.textContent !== words) count.textContent = words;
    }
    const button = document.querySelector("#watch-play");
    const label = view.playing ? "Pause" : "Play";
    if (button && button.textContent.trim() !== label) button.textContent = label;
    for (const each of document.querySelectorAll("#watch-play, #watch-back, #watch-step")) each.disabled = run === null;
  }

  function show(step, since = step - 1) {
    view.shown = step;
    view.since = Math.max(since, 0);
  }

  function tick() {
    const leap = Math.ceil(Math.max(...sections().map((section) => +section.dataset.planned)) / frames) || 1;
    if (view.shown < taken()) show(Math.min(view.shown + leap, taken()), view.shown);
    else if (!coming()) stop();
    draw();
  }

  function start() {
    view.playing = true;
    view.timer = setInterval(tick, pace);
  }

  function stop() {
    clearInterval(view.timer);
    view.playing = false;
  }

  let turn = 0;
  const drawing = {}; // by tab: the answer that is being drawn, as a promise and what ends it
  const patience = 5000; // milliseconds: long work that is not wanted any more may take longer to notice

  window.unmask = {
    turned(given) { // what is sent to the server, with its number: the newest is what the page wants
      turn += 1;
      return [String(turn), ...given.slice(1)];
    },
    // The same for an answer that is drawn: one after another in a tab. Pictures of an older one may wait to be drawn
    // here, where the server cannot take them back, and would come after those of a newer.
    async alone(tab, given) {
      const numbered = this.turned(given);
      while (drawing[tab]) {
        const before = drawing[tab];
        await Promise.race([before.ended, new Promise((done) => setTimeout(done, patience))]);
        if (drawing[tab] === before) delete drawing[tab];
      }
      const mine = {};
      mine.ended = new Promise((done) => (mine.end = done));
      drawing[tab] = mine;
      return numbered;
    },
    drawn(tab) {
      drawing[tab]?.end();
      delete drawing[tab];
    },
    play() {
      view.cancelled = false;
      if (view.playing) {
        stop();
      } else {
        if (view.shown >= taken() && !coming()) show(0);
        start();
      }
      draw();
    },
    move(by) {
      view.cancelled = false;
      stop();
      show(Math.min(Math.max(view.shown + by, 0), taken()));
      draw();
    },
    halt() { // cancelled: what was revealed is shown at once
      stop();
      view.cancelled = true;
      draw();
    },
    save(name, text) {
      if (!text) return;
      const address = URL.createObjectURL(new Blob([text], { type: "text/plain" }));
      const anchor = Object.assign(document.createElement("a"), { href: address, download: name });
      anchor.click();
      setTimeout(() => URL.revokeObjectURL(address), 10000);
    },
  };

  // A sentence is tied to the field above it, for those who cannot see that it stands there.
  function tie(place) {
    const wrong = place.querySelector("p") !== null;
    const edges = place.getBoundingClientRect();
    if (wrong && (edges.bottom < 0 || edges.top > window.innerHeight)) place.scrollIntoView({ block: "center" });
    for (const field of place.previousElementSibling?.querySelectorAll("input, textarea") ?? []) {
      if (wrong) field.setAttribute("aria-describedby", place.id);
      else field.removeAttribute("aria-describedby");
      field.setAttribute("aria-invalid", String(wrong));
    }
  }
  const place = (node) => (node.closest ? node : node.parentElement)?.closest(".problem[id$=-problem]");
  new MutationObserver((changes) => {
    for (const found of new Set(changes.map((change) => place(change.target)))) if (found) tie(found);
  }).observe(document, { childList: true, subtree: true, characterData: true });

  // A picture must be in its right state before it is painted, not a moment later. Gradio may replace it or change it in
  // place; what is drawn here changes it once more, and then no longer.
  const inside = (node) => (node.closest ? node : node.parentElement)?.closest("#watch-runs");
  new MutationObserver((changes) => changes.some((change) => inside(change.target)) && draw()).observe(document, {
    childList: true, subtree: true, characterData: true, attributeFilter: ["data-run", "data-taken", "data-step", "data-text"],
  });
})();
