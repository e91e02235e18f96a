"use strict";
// What NiceGUI's page lacks: names for a screen reader, and what the report's script does to new texts.
(() => {
  const dark = matchMedia("(prefers-color-scheme: dark)");
  dark.addEventListener("change", () => globalThis.emitEvent?.("scheme", dark.matches));

  const seen = (records) => {
    for (const { target, addedNodes } of records)
      if (addedNodes.length && target.matches?.(".answer")) globalThis.rnncPrepare(target);
    const editor = document.querySelector(".cm-content:not([aria-label])");
    editor?.setAttribute("aria-label", "Cells in Python. Press Escape, then Tab, to leave the editor");
    editor?.setAttribute("tabindex", "0");
  };
  new MutationObserver(seen).observe(document, { childList: true, subtree: true });
})();
