// What every tab needs: numbered requests, downloads, sentences tied to their fields, and settings that fold.
(() => {
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
    save(name, text, type = "text/plain") {
      if (!text) return;
      const address = URL.createObjectURL(new Blob([text], { type }));
      const anchor = Object.assign(document.createElement("a"), { href: address, download: name });
      anchor.click();
      setTimeout(() => URL.revokeObjectURL(address), 10000);
    },
  };

  // A sentence is tied to the field above it, for those who cannot see that it stands there.
  function tie(place) {
    const wrong = place.querySelector("p[role=alert]") !== null;
    const settings = place.closest(".settings");
    if (wrong && settings) fold(settings, true); // nobody finds a sentence that is folded away
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

  // Sliders that span decades are logarithmic: one of our own in the place of Gradio's, which keeps the number. The arrow
  // keys still count by ones.
  function logarithmic(block) {
    const [range, box] = [block.querySelector("input[type=range]"), block.querySelector("input[type=number]")];
    if (!range || !box || block.querySelector("input[data-logarithmic]")) return;
    const [low, high, fine] = [+range.min, +range.max, 1000];
    const settings = block.closest(".settings");
    const length = block.classList.contains("within-length") ? settings?.querySelector(".the-length input[type=number]") : null;
    // Steps end at the length, as a step reveals one token at least.
    const most = () => (length ? Math.min(Math.max(+length.value || high, low + 1), high) : high);
    const end = length && [...block.querySelectorAll("span")].find((each) => each.textContent.trim() === String(high));
    const own = Object.assign(document.createElement("input"), { type: "range", min: 0, max: fine, step: "any" });
    own.dataset.logarithmic = "";
    own.className = range.className;
    own.setAttribute("aria-label", range.getAttribute("aria-label"));
    const there = () => {
      const value = Math.min(Math.max(+box.value || low, low), most());
      own.value = (fine * Math.log(value / low)) / Math.log(most() / low);
      own.style.setProperty("--range_progress", `${own.value / (fine / 100)}%`);
      own.setAttribute("aria-valuetext", value.toLocaleString("en"));
      if (end && end.textContent !== String(most())) end.textContent = most();
      if (block.classList.contains("the-length")) block.dispatchEvent(new Event("unmask:length", { bubbles: true }));
    };
    const put = (value, event) => {
      range.value = Math.min(Math.max(value, low), most());
      for (const each of event) range.dispatchEvent(new Event(each, { bubbles: true }));
    };
    const chosen = () => Math.round(low * (most() / low) ** (own.value / fine));
    own.addEventListener("input", () => put(chosen(), ["input"]));
    own.addEventListener("change", () => put(chosen(), ["input", "change", "pointerup"]));
    own.addEventListener("keydown", (event) => {
      const by = { ArrowRight: 1, ArrowUp: 1, ArrowLeft: -1, ArrowDown: -1 }[event.key];
      if (by === undefined) return;
      event.preventDefault();
      put(+box.value + by, ["input", "change", "pointerup"]);
      requestAnimationFrame(there);
    });
    range.tabIndex = -1;
    range.setAttribute("aria-hidden", "true");
    range.before(own);
    box.addEventListener("input", there);
    if (length) {
      settings.addEventListener("unmask:length", () => setTimeout(there));
      // Once a number has been settled upon, here or of the length, what is too large becomes what is possible;
      // but not under the hands of somebody who is typing it.
      settings.addEventListener("change", (event) => setTimeout(() => {
        if (event.target !== range && document.activeElement !== box && +box.value > most()) put(most(), ["input"]);
      }));
    }
    // Gradio changes the number too, which is no event; how far its own slider is filled follows it.
    new MutationObserver(there).observe(range, { attributes: true });
    setTimeout(there);
    there();
  }
  new MutationObserver(() => document.querySelectorAll(".logarithmic").forEach(logarithmic)).observe(document, { childList: true, subtree: true });

  // On a phone settings are folded away: the picture comes first.
  function fold(settings, open) {
    settings.toggleAttribute("data-unfolded", open);
    document.querySelector(`[aria-controls="${settings.id}"]`)?.setAttribute("aria-expanded", String(open));
  }
  document.addEventListener("click", (event) => {
    const button = event.target.closest?.("button.fold");
    const settings = button && document.getElementById(button.getAttribute("aria-controls"));
    if (settings) fold(settings, !settings.hasAttribute("data-unfolded"));
  });
})();
