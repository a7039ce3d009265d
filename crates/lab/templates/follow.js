// Follows a run that is being measured: the page is asked for again and what has changed is put in its place, so that nothing jumps.
// Without it the page asks to be loaded again.
"use strict";
(() => {
  const EVERY = 1000;
  const again = async () => {
    try {
      const answer = await fetch(location.href, { cache: "no-store" });
      const next = new DOMParser().parseFromString(await answer.text(), "text/html");
      const [here, there] = [document, next].map(page => page.querySelector("#live"));
      // It has ended: the report is there now.
      if (!there) return location.reload();
      if (here.innerHTML !== there.innerHTML) here.replaceChildren(...there.childNodes);
      if (!there.dataset.goesOn) return;
    } catch {
      // The view may be started again; until then the page stays as it is.
    }
    setTimeout(again, EVERY);
  };
  if (document.querySelector("#live")?.dataset.goesOn) setTimeout(again, EVERY);
})();
