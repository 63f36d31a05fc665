// Sets the theme before the first paint. The choice is "light", "dark" or nothing: that of the system.
// This is a classic script, because a module would run after the first paint.
(() => {
  try {
    const theme = localStorage.getItem("terrace-theme");
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  } catch {
    // Without storage, the theme is that of the system.
  }
})();
