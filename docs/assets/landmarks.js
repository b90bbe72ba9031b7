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
