// Typesets the formulas of a page with the copy of KaTeX beside this file. Pages without formulas load nothing.
(() => {
  const formulas = document.querySelectorAll(".arithmatex");
  if (!formulas.length) return;
  const folder = new URL("katex/", document.currentScript.src);

  const style = document.createElement("link");
  style.rel = "stylesheet";
  style.href = new URL("katex.min.css", folder);
  document.head.append(style);

  const script = document.createElement("script");
  script.src = new URL("katex.min.js", folder);
  script.onload = () => {
    for (const formula of formulas) {
      // The builder writes \( … \) within a line and \[ … \] on lines of their own.
      const source = formula.textContent.trim().slice(2, -2);
      katex.render(source, formula, { displayMode: formula.tagName === "DIV", throwOnError: false });
    }
    // A link to a heading was followed before the formulas above it had their height.
    if (location.hash) document.getElementById(decodeURIComponent(location.hash.slice(1)))?.scrollIntoView();
  };
  script.onerror = () => document.documentElement.classList.add("plain-formulas"); // show their source
  document.head.append(script);
})();
