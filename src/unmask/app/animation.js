// A run as an animation that plays anywhere: one SVG file, without a script, that begins again at its end.
(() => {
  const letter = 9, row = 24, columns = 52, margin = 24, gap = 36; // pixels, and letters in a row
  const chart = 60; // height of the costs
  const wide = columns * letter;
  const escaped = (text) => text.replace(/[&<>"]/g, (found) => `&#${found.charCodeAt(0)};`);

  // Pieces that are seen from one picture on and until before another; those with the same times share one clock. What
  // is on top covers the others.
  class Film {
    pieces = new Map();

    add(from, to, markup, top = false) {
      const key = `${from} ${to} ${+top}`;
      this.pieces.set(key, [...(this.pieces.get(key) ?? []), markup]);
    }

    markup(count, seconds) {
      const clock = (values, times) =>
        `<animate attributeName="opacity" calcMode="discrete" dur="${seconds.toFixed(2)}s" repeatCount="indefinite" values="${values}" keyTimes="${times.map((each) => +(each / count).toFixed(5)).join(";")}"/>`;
      return [...this.pieces]
        .sort(([one], [other]) => one.at(-1) - other.at(-1))
        .map(([key, markup]) => {
          const [from, to] = key.split(" ").map(Number);
          const all = markup.join("");
          if (to === Infinity) return from ? `<g>${clock("0;1", [0, from])}${all}</g>` : `<g>${all}</g>`;
          return `<g opacity="0">${from ? clock("0;1;0", [0, from, to]) : clock("1;0", [0, to])}${all}</g>`;
        })
        .join("");
    }
  }

  // All that a token is, from step to step: [first picture, text or null, step that made it so, bits].
  function history(token, runs, taken) {
    const states = [];
    for (let own = 0; own <= taken; own += 1) {
      const [text, step, bits] = runs.version(token, own, taken);
      const before = states.at(-1);
      if (!before || before[1] !== text || before[2] !== step) states.push([own, text, step, bits]);
    }
    return states;
  }

  function side(film, section, runs, left, colour) {
    const taken = +section.dataset.taken;
    const steps = +section.dataset.planned || taken;
    const words = (y, text, more = "") => `<text x="${left}" y="${y}" ${more}>${escaped(text)}</text>`;
    film.add(0, Infinity, words(margin + 14, section.querySelector("h2").textContent, 'class="title"'));
    for (let own = 0; own <= taken; own += 1) {
      const told = runs.told(section.dataset, own).split(" · ");
      const lines = [told.slice(0, 2).join(" · "), told.slice(2).join(" · ")];
      film.add(own, own === taken ? Infinity : own + 1, lines.map((line, place) => words(margin + 36 + 18 * place, line, 'class="small"')).join(""));
    }
    let [column, line] = [0, 0];
    for (const token of section.querySelectorAll("[data-step]")) {
      const states = history(token, runs, taken);
      const length = Math.max(1, ...states.map(([, text]) => [...(text ?? "_")].length));
      if (column + length > columns && column) [column, line] = [0, line + 1];
      const [x, y] = [left + column * letter, margin + 66 + line * row];
      const ground = (fill) => `<rect x="${x}" y="${y}" width="${length * letter}" height="${row - 4}" fill="${fill}"/>`;
      states.forEach(([from, text, step, bits], place) => {
        const to = states[place + 1]?.[0] ?? Infinity;
        const open = text === null;
        const fill = open ? "" : runs.shade(step, bits, steps);
        if (fill) film.add(from, to, ground(colour(`--${fill}`)));
        if (step >= 0) film.add(from, from + 1, ground(open ? "#b3261e" : colour("--newest")), true);
        const shown = open ? "_" : text;
        const look = open ? 'class="soft"' : step === -1 ? 'text-decoration="underline"' : "";
        if (shown.trim()) film.add(from, to, `<text x="${x}" y="${y + 15}" textLength="${[...shown].length * letter}" ${look}>${escaped(shown)}</text>`);
        if (step >= 0 && !open && shown.trim()) film.add(from, from + 1, `<text x="${x}" y="${y + 15}" textLength="${[...shown].length * letter}" fill="#111">${escaped(shown)}</text>`, true);
      });
      column += length;
    }
    const low = margin + 66 + (line + 1) * row + 14 + chart;
    const { found: all, tokens: whole } = runs.bars(section);
    const across = (tokens) => left + (wide * tokens) / whole;
    const up = (bits) => low - (chart * bits) / runs.top;
    all.forEach((each, step) => {
      film.add(step + 1, Infinity, `<rect x="${across(each.from).toFixed(1)}" y="${up(each.bits).toFixed(1)}" width="${Math.max(across(each.to) - across(each.from) - 1, 0.5).toFixed(1)}" height="${(low - up(each.bits)).toFixed(1)}" fill="${colour("--bar")}"/>`);
      const before = all[step - 1] ?? each;
      const middle = ({ from, to }) => across((from + to) / 2).toFixed(1);
      film.add(step + 1, Infinity, `<path d="M${middle(before)} ${up(before.mean).toFixed(1)}L${middle(each)} ${up(each.mean).toFixed(1)}" stroke="${colour("--c1")}" stroke-width="2"/>`);
    });
    if (!all.length) return low - chart;
    film.add(0, Infinity, words(low + 16, "Bits per token of each step; the line is the mean so far.", 'class="small"'));
    return low + 16;
  }

  window.unmask.animation = () => {
    const runs = window.unmask.runs();
    const style = getComputedStyle(document.querySelector("#watch-runs"));
    const colour = (name) => style.getPropertyValue(name).trim();
    const film = new Film();
    const bottoms = runs.sections.map((section, place) => side(film, section, runs, margin + place * (wide + gap), colour));
    const [width, height] = [2 * margin + runs.sections.length * (wide + gap) - gap, Math.max(...bottoms) + margin];
    const beat = runs.pace * Math.min(1, runs.frames / Math.max(runs.steps, 1)); // milliseconds for a step
    const count = runs.steps + 1 + Math.ceil(2500 / beat); // with time to read the end of it
    const ground = getComputedStyle(document.body).backgroundColor;
    return (
      `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img">` +
      `<title>${escaped(runs.sections.map((each) => each.querySelector("h2").textContent).join(" and "))}</title>` +
      `<style>text{font:15px ui-monospace,"DejaVu Sans Mono",Consolas,monospace;fill:${style.color}}text[fill]{fill:#111}.title{font:600 16px system-ui,sans-serif}.soft{fill:${colour("--muted")}}text.soft{font-size:14px}.small{font:13px system-ui,sans-serif;fill:${colour("--muted")}}</style>` +
      `<rect width="100%" height="100%" fill="${ground}"/>${film.markup(count, (count * beat) / 1000)}</svg>`
    );
  };
})();
