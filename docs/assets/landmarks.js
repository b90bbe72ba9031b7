// Screen readers list the landmarks of a page by name. The theme gives one name to several, and none to the buttons of
// code, which it adds later.
function landmarks() {
  for (const path of document.querySelectorAll("nav.md-path")) path.setAttribute("aria-label", "Breadcrumbs");
  for (const section of document.querySelectorAll("nav.md-nav[data-md-level='1'][aria-labelledby]")) {
    const label = document.getElementById(section.getAttribute("aria-labelledby"));
    section.setAttribute("aria-label", `Pages of ${label?.textContent.trim()}`);
    section.removeAttribute("aria-labelledby");
  }
  for (const buttons of document.querySelectorAll("nav.md-code__nav")) buttons.setAttribute("role", "none");
}
landmarks();
new MutationObserver(landmarks).observe(document.body, { childList: true, subtree: true });

// Where lines may end: a number keeps its error and its unit, and a long name in code breaks after a dot or an underscore
// before it breaks anywhere else.
for (const cell of document.querySelectorAll(".md-typeset td")) {
  const walk = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) walk.currentNode.data = walk.currentNode.data.replace(/ ± /g, "\u00a0±\u00a0").replace(/(\d) %/g, "$1\u00a0%");
}
for (const code of document.querySelectorAll(".md-typeset :is(p, li, td) code")) {
  const walk = document.createTreeWalker(code, NodeFilter.SHOW_TEXT);
  const texts = [];
  while (walk.nextNode()) texts.push(walk.currentNode);
  for (const text of texts) {
    const parts = text.data.split(/(?<=\w\w[._])(?=\w)/);
    if (text.data.length > 20 && parts.length > 1) {
      text.replaceWith(...parts.flatMap((part, place) => (place ? [document.createElement("wbr"), part] : [part])));
    }
  }
}
