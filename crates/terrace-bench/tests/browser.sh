#!/usr/bin/env bash
# Renders sample.html, hostile.html, large.html and empty.html of a directory in headless Chromium, as wide as a desk
# and as narrow as a phone. Fails on a console message, on a figure without a size, on a text outside its figure, on
# a page wider than its window, if the script did not do its work, and if the report prints on more than three pages.
#
#   browser.sh chromium DIRECTORY
set -euo pipefail
browser=$1 pages=$2

# One browser for all of them: each page in a frame of its width (a window can't be as narrow as a phone). A probe at
# the end of each page looks around and tells the page outside.
cases=(
    # page, width, figures, curves. Sample: six rows of three figures, and three panels; two curves for each of four
    # engines in each row. Large: twenty rows, ten engines.
    "sample 1280 21 48"
    "sample 390 21 48"
    "hostile 390 21 48"
    "large 1280 69 400"
    "large 390 69 400"
    "empty 390 0 0"
)

read -r -d '' probe <<'JS' || true
<script>
addEventListener("load", () => {
  const wrong = [];
  const figures = [...document.querySelectorAll("figure > svg")];
  for (const figure of figures) {
    const { width, height } = figure.getBoundingClientRect();
    if (width < 200 || height < 40) wrong.push(`a figure of ${width}x${height}`);
    for (const text of figure.querySelectorAll("text")) {
      const { x, width } = text.getBBox();
      // Fonts differ a little.
      if (x < -8 || x + width > 368) wrong.push(`${text.textContent}: from ${x} to ${x + width}`);
    }
  }
  const curves = [...document.querySelectorAll("path.curve, path.peak")];
  for (const curve of curves) if (!(curve.getTotalLength() > 5)) wrong.push("a curve without a length");
  const { scrollWidth } = document.documentElement;
  if (scrollWidth > innerWidth) wrong.push(`${scrollWidth} wide in a window of ${innerWidth}`);
  if (document.querySelector(".hit > title")) wrong.push("the script left the hit areas as they were");
  location.hash = "#row-1";
  setTimeout(() => {
    const rows = [...document.querySelectorAll(".row")];
    const shown = rows.filter((row) => row.offsetHeight > 0).length;
    if (rows.length > 0 && shown !== 1) wrong.push(`${shown} rows after choosing one`);
    const page = location.pathname.split("/").pop().replace(".probe.html", "");
    const found = `${page} ${innerWidth} ${figures.length} ${curves.length}`;
    parent.postMessage(wrong.length ? `${found}: ${wrong.slice(0, 5).join("; ")}` : found, "*");
  }, 50);
});
</script>
JS

{
    echo '<!doctype html><ul></ul><script>addEventListener("message", (event) => {'
    echo '  document.querySelector("ul").append(Object.assign(document.createElement("li"), { textContent: event.data }), "\n");'
    echo '});</script>'
    for case in "${cases[@]}"; do
        read -r page width _ <<<"$case"
        { cat "$pages/$page.html" && printf '%s\n' "$probe"; } >"$pages/$page.probe.html"
        echo "<iframe src=\"$page.probe.html\" width=\"$width\" height=\"900\" style=\"border: 0\"></iframe>"
    done
} >"$pages/all.html"

"$browser" --headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync \
    --disable-background-networking --disable-component-update --hide-scrollbars --enable-logging=stderr \
    --user-data-dir="$pages/profile" --virtual-time-budget=10000 --dump-dom "file://$pages/all.html" \
    >"$pages/dom" 2>"$pages/log" || { cat "$pages/log" && exit 1; }

found=$(sed -n 's/.*<li>\(.*\)<\/li>.*/\1/p' "$pages/dom" | sort)
expected=$(printf '%s\n' "${cases[@]}" | sort)
failed=0
diff <(echo "$expected") <(echo "$found") || failed=1
if grep -F CONSOLE "$pages/log"; then
    echo "the console says something"
    failed=1
fi
# The printed report is an overview.
"$browser" --headless --no-sandbox --disable-gpu --user-data-dir="$pages/profile" --print-to-pdf="$pages/sample.pdf" \
    "file://$pages/sample.html" 2>"$pages/log" || { cat "$pages/log" && exit 1; }
printed=$(grep --text --count "/Type /Page\b" "$pages/sample.pdf")
if ((printed > 3)); then
    echo "the report prints on $printed pages"
    failed=1
fi
exit "$failed"
