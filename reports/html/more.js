(function () {
  "use strict";
  var main = document.getElementById("main"), each = Number(main.dataset.each), first = Number(main.dataset.first), wanted = -1;
  function say(text) { main.textContent = ""; var said = document.createElement("p"); said.setAttribute("role", "status"); said.textContent = text; main.append(said); }
  function unpack(text) {
    var octets = Uint8Array.from(atob(text), function (letter) { return letter.charCodeAt(0); });
    return new Response(new Blob([octets]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
  }
  /* Every chunk is a script that calls this: a page from a disk may load scripts, and no other files. */
  window.brokerproof_pages = function (chunk, packed) {
    if (chunk !== Math.floor((wanted - first) / each)) return;
    unpack(packed).then(function (pages) {
      var html = pages[(wanted - first) % each];
      if (!html) { say("There is no page " + wanted + "."); return; }
      main.innerHTML = html; /* Made and escaped when the report was written. */
      document.title = main.querySelector("h1").textContent + " · brokerproof";
      main.querySelectorAll("button.copy").forEach(function (button) { button.hidden = false; });
      document.documentElement.dataset.ready = "";
      main.focus();
    }).catch(function () { say("This browser cannot unpack the page."); });
  };
  function show() {
    wanted = parseInt(location.hash.slice(1), 10);
    if (!(wanted >= first)) { say("Choose a case from the list of all cases."); return; }
    say("Loading …");
    var script = document.createElement("script"), chunk = Math.floor((wanted - first) / each);
    script.setAttribute("src", "more/" + String(chunk).padStart(5, "0") + ".js");
    script.onerror = function () { say("There is no page " + wanted + "."); };
    script.onload = function () { script.remove(); };
    document.body.append(script);
  }
  addEventListener("hashchange", function () { if (/^#\d+$/.test(location.hash)) show(); });
  show();
})();
