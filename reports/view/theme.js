(function () {
  "use strict";
  var root = document.documentElement, key = "brokerproof-theme", order = ["auto", "light", "dark"];
  function kept() { try { return localStorage.getItem(key); } catch (_) { return null; } }
  function keep(theme) { try { localStorage.setItem(key, theme); } catch (_) { /* a page from a disk may have no storage */ } }
  function show(theme) {
    if (theme === "light" || theme === "dark") root.dataset.theme = theme; else delete root.dataset.theme;
  }
  show(kept());
  function copied(button) {
    var text = button.parentElement.querySelector("pre").textContent;
    function done() { button.textContent = "Copied"; setTimeout(function () { button.textContent = "Copy"; }, 1500); }
    function by_hand() {
      var area = document.createElement("textarea");
      area.value = text; document.body.append(area); area.select(); document.execCommand("copy"); area.remove(); done();
    }
    if (navigator.clipboard) navigator.clipboard.writeText(text).then(done, by_hand); else by_hand();
  }
  document.addEventListener("click", function (event) {
    var button = event.target.closest("button");
    if (!button) return;
    if (button.id === "theme") {
      var next = order[(order.indexOf(root.dataset.theme || "auto") + 1) % order.length];
      show(next); keep(next); label(button);
    } else if (button.classList.contains("copy")) copied(button);
  });
  function label(button) { button.textContent = "Theme: " + (root.dataset.theme || "auto"); }
  document.addEventListener("DOMContentLoaded", function () {
    var button = document.getElementById("theme");
    if (button) { button.hidden = false; label(button); }
    document.querySelectorAll("button.copy").forEach(function (each) { each.hidden = false; });
  });
  addEventListener("beforeprint", function () { document.querySelectorAll("details:not(.unprinted, .folded)").forEach(function (each) { if (!each.open) { each.open = true; each.dataset.print = ""; } }); });
  addEventListener("afterprint", function () { document.querySelectorAll("details[data-print]").forEach(function (each) { each.open = false; delete each.dataset.print; }); });
})();
