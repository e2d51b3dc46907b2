# SPDX-License-Identifier: Apache-2.0
# Sourced by tests of reports in Chromium: $source, and $folder, which holds NAME.html.
command -v chromium > /dev/null || { echo "skipped: no chromium (package chromium)"; exit 77; }
failed=0

# in_browser NAME [RESULT...]: asks $folder/NAME.html, wide and narrow; RESULT: the document of each of its runs, in their order.
# failed becomes 1 where an answer is not that all is well. With HETPIPE_PICTURES=DIR, DIR/NAME-WIDTH.png as well.
in_browser() {
  local name=$1 result answer width
  {
    echo "<script>"
    cat "$source/tests/end-to-end/browser_checks.js"
    echo "</script>"
    for result in "${@:2}"; do
      echo "<script type=\"application/json\" data-result>"
      sed 's/</\\u003c/g' "$result"
      echo "</script>"
    done
  } > "$folder/asked"
  sed "/<\/head>/{
r $folder/asked
}" "$folder/$name.html" > "$folder/asked.html"
  for width in 1400 400; do
    # A window is at least 500 wide: the narrow one is a frame in it.
    echo "<!doctype html><title></title><style>body{margin:0}</style><iframe id=f width=$width height=900 style='border:0' src=asked.html></iframe><script>
      setInterval(() => { document.title = document.getElementById('f').contentDocument.title; }, 50);</script>" > "$folder/frame.html"
    answer=$(timeout 240 chromium --headless --no-sandbox --disable-gpu --allow-file-access-from-files --user-data-dir="$folder/browser" \
      --window-size=1400,900 --virtual-time-budget=5000 --dump-dom "file://$folder/frame.html" 2> "$folder/browser.txt" |
      sed -n 's/.*<title>\([^<]*\)<\/title>.*/\1/p' | head -n 1) || true
    echo "$name at $width pixels: ${answer:-no answer}"
    [[ $answer == "all is well: "* ]] || { failed=1; tail -n 3 "$folder/browser.txt"; }
    if [ -n "${HETPIPE_PICTURES:-}" ]; then
      sed "s/asked.html/$name.html/; s/height=900/height=9000/" "$folder/frame.html" > "$folder/picture.html"
      chromium --headless --no-sandbox --disable-gpu --user-data-dir="$folder/browser" --window-size="$((width < 500 ? 500 : width)),9000" --virtual-time-budget=5000 \
        --screenshot="$HETPIPE_PICTURES/$name-$width.png" "file://$folder/picture.html" 2> /dev/null
    fi
  done
}
