// Runs before anything is drawn, so that a chosen theme never flashes the other one.
try {
  const theme = localStorage.getItem("andon.theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch (error) {
  // Storage may be forbidden; then the system's choice counts.
}
