// Light, dark, or as the system has it. The choice is kept where the browser lets a page keep anything.
(() => {
  "use strict";
  const choices = ["system", "light", "dark"];
  const button = document.getElementById("theme");
  let at = 0;
  const remember = (value) => {
    try {
      if (value === undefined) return localStorage.getItem("taskloss-theme");
      localStorage.setItem("taskloss-theme", value);
    } catch { /* a page opened from a file may have no storage */ }
    return null;
  };
  const show = () => {
    const choice = choices[at];
    if (choice === "system") document.documentElement.removeAttribute("data-theme");
    else document.documentElement.setAttribute("data-theme", choice);
    button.textContent = `Theme: ${choice}`;
  };
  at = Math.max(0, choices.indexOf(remember()));
  show();
  button.addEventListener("click", () => {
    at = (at + 1) % choices.length;
    remember(choices[at]);
    show();
  });
})();
