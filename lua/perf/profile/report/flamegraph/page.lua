--- The page of a flame graph: structure and looks. @TITLE@, @DATA@ and @SCRIPT@ are filled in by perf.profile.report.flamegraph.
-- Everything is in the file; the policy in its head forbids it to load anything.
return [==[
<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>@TITLE@</title>
<style>
:root { color-scheme: light dark; --bg: #fff; --fg: #1c1c1e; --soft: #6a6a70; --line: #d9d9de; --field: #f4f4f6;
  --accent: #a3169c }
@media (prefers-color-scheme: dark) {
  :root { --bg: #18181b; --fg: #ececf0; --soft: #9c9ca6; --line: #37373d; --field: #242428; --accent: #f08bea }
}
* { box-sizing: border-box }
html, body { margin: 0; height: 100%; background: var(--bg); color: var(--fg); font: 14px/1.35 system-ui, sans-serif }
body { display: flex; flex-direction: column; height: 100dvh; overflow: hidden }
header { display: flex; flex-wrap: wrap; gap: 6px 14px; align-items: center; padding: 8px 12px }
h1 { font-size: 16px; margin: 0; flex: 1 1 14em; min-width: 0 }
h1 span { display: block; overflow: hidden; text-overflow: ellipsis; white-space: nowrap }
h1 small { display: block; font-weight: 400; font-size: 12.5px; color: var(--soft) }
.controls { display: flex; flex-wrap: wrap; gap: 6px; align-items: center }
.search { display: flex; align-items: center; position: relative }
input, button { font: inherit; color: inherit; background: var(--field); border: 1px solid var(--line); border-radius: 6px;
  height: 32px }
input { width: 15em; max-width: 50vw; padding: 0 8px }
input.bad { border-color: #d33; outline-color: #d33 }
button { padding: 0 10px; cursor: pointer }
button:disabled { opacity: .45; cursor: default }
button:focus-visible, input:focus-visible { outline: 2px solid var(--accent); outline-offset: 1px }
#matched { color: var(--accent); font-weight: 600; min-width: 4.2em; font-variant-numeric: tabular-nums }
#view { flex: 1; min-height: 0; overflow-x: hidden; overflow-y: auto; border-top: 1px solid var(--line);
  border-bottom: 1px solid var(--line); outline: none }
#view:focus-visible { box-shadow: inset 0 0 0 2px var(--accent) }
canvas { position: sticky; top: 0; display: block; cursor: pointer; touch-action: pan-y }
footer { padding: 6px 12px 8px; min-height: 4.6em; display: flex; flex-wrap: wrap; gap: 2px 16px; align-items: flex-start }
#details { flex: 1 1 20em; min-width: 0; font-variant-numeric: tabular-nums }
#details b { display: block; font-weight: 600; overflow-wrap: anywhere; max-height: 2.7em; overflow: hidden }
#details span { color: var(--soft) }
#legend { display: flex; flex-wrap: wrap; gap: 2px 12px; font-size: 12.5px; color: var(--soft); padding-top: 1px }
#legend i { display: inline-block; width: 10px; height: 10px; border-radius: 2px; margin-right: 5px }
#tip { position: fixed; left: 0; top: 0; max-width: min(44em, 92vw); padding: 6px 9px; border-radius: 6px; background: var(--bg);
  border: 1px solid var(--line); box-shadow: 0 3px 14px #0004; pointer-events: none; font-size: 13px; overflow-wrap: anywhere }
#tip b { display: block } #tip[hidden] { display: none }
#help { position: fixed; right: 12px; top: 52px; padding: 10px 14px; background: var(--bg); border: 1px solid var(--line);
  border-radius: 8px; box-shadow: 0 3px 14px #0004; font-size: 13px; z-index: 2 }
#help[hidden] { display: none } #help td { padding: 1px 8px 1px 0 }
kbd { font: 12px ui-monospace, monospace; border: 1px solid var(--line); border-radius: 4px; padding: 0 4px;
  background: var(--field) }
@media (max-width: 620px) {
  header { padding: 6px 8px } h1 { flex-basis: 100%; font-size: 15px } .controls, .search { flex: 1 1 auto }
  input { font-size: 16px; flex: 1; width: 7em; max-width: none } button { height: 36px } input { height: 36px }
  #matched { min-width: 0 } footer { padding: 6px 8px } #legend { flex-basis: 100% }
}
</style>
</head>
<body>
<header>
<h1><span id="title"></span><small id="subtitle"></small></h1>
<div class="controls">
<div class="search"><input id="search" type="search" placeholder="Search (regex)" aria-label="Search, a regular expression"
  autocapitalize="off" autocomplete="off" spellcheck="false"></div>
<span id="matched" role="status"></span>
<button id="side" hidden></button>
<button id="flip"></button>
<button id="reset" disabled>Reset</button>
<button id="keys" aria-expanded="false" aria-controls="help" title="Keys">?</button>
</div>
</header>
<div id="help" hidden><table>
<tr><td><kbd>click</kbd> <kbd>Enter</kbd><td>zoom to a frame
<tr><td><kbd>&larr;</kbd> <kbd>&rarr;</kbd> <kbd>&uarr;</kbd> <kbd>&darr;</kbd><td>go to the next frame
<tr><td><kbd>Esc</kbd><td>zoom out one step, then end the search
<tr><td><kbd>/</kbd><td>search; <kbd>Enter</kbd> there goes to the next match
<tr><td><kbd>i</kbd><td>turn the graph over
<tr><td><kbd>0</kbd><td>reset
</table></div>
<main id="view" tabindex="0" role="application" aria-label="Flame graph" aria-describedby="details">
<canvas id="canvas"></canvas><div id="space"></div>
</main>
<footer><div id="details" aria-live="polite"></div><div id="legend"></div></footer>
<div id="tip" hidden></div>
<noscript>This page draws the graph by its own script, which is switched off here.</noscript>
<script type="application/json" id="data">@DATA@</script>
<script>
@SCRIPT@
</script>
</body>
</html>
]==]
