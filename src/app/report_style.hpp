// The look of a report's page: its CSS.
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace trireme::app {

inline constexpr std::string_view report_css = R"css(
:root { color-scheme: light dark; --paper: #ffffff; --card: #ffffff; --ink: #1b1f24;
  --soft: #5c6670; --grid: #e4e7ea; --line: #d0d5da; --accent: #0072b2; --shade: #f4f6f8; }
@media (prefers-color-scheme: dark) { :root:not([data-theme="light"]) { --paper: #14171b;
  --card: #1b1f25; --ink: #e4e7ea; --soft: #9aa4ae; --grid: #2b3138; --line: #3a424b;
  --accent: #4da6e8; --shade: #20252c; } }
:root[data-theme="dark"] { color-scheme: dark; --paper: #14171b; --card: #1b1f25;
  --ink: #e4e7ea; --soft: #9aa4ae; --grid: #2b3138; --line: #3a424b; --accent: #4da6e8;
  --shade: #20252c; }
:root[data-theme="light"] { color-scheme: light; }
* { box-sizing: border-box; }
body { margin: 0; background: var(--paper); color: var(--ink);
  font: 15px/1.45 system-ui, sans-serif; }
header, main { max-width: 1240px; margin: 0 auto; padding: 0 20px; }
header { padding-top: 22px; }
h1 { font-size: 24px; margin: 0 0 4px; overflow-wrap: anywhere; }
h2 { font-size: 17px; margin: 34px 0 10px; }
p { margin: 6px 0; } .soft { color: var(--soft); }
.note { border-left: 3px solid #d55e00; padding: 2px 10px; margin: 8px 0; }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; font-size: 14px; }
th, td { padding: 5px 12px 5px 0; text-align: right; white-space: nowrap;
  border-bottom: 1px solid var(--grid); }
th { color: var(--soft); font-weight: 500; } th:first-child, td:first-child,
.words td, .words th { text-align: left; }
.chip { display: inline-block; width: 11px; height: 11px; border-radius: 3px;
  margin-right: 7px; background: var(--c); }
.chip.dashed { height: 3px; border-radius: 0; vertical-align: middle;
  background: repeating-linear-gradient(90deg, var(--c) 0 4px, transparent 4px 7px); }
.state { padding: 1px 8px; border-radius: 9px; background: var(--shade); }
.state.failed { background: #d55e00; color: #fff; }
.tools { position: sticky; top: 0; z-index: 5; display: flex; flex-wrap: wrap;
  gap: 6px 18px; align-items: center; padding: 8px 0; margin-top: 18px;
  background: var(--paper); border-bottom: 1px solid var(--grid); font-size: 14px; }
.tools label { display: flex; gap: 6px; align-items: center; color: var(--soft); }
.tools input[type=range] { width: 110px; }
button, select { font: inherit; font-size: 13px; color: var(--ink); cursor: pointer;
  background: var(--shade); border: 1px solid var(--line); border-radius: 6px;
  padding: 2px 9px; }
.plots { display: grid; grid-template-columns: repeat(auto-fill, minmax(min(100%, 540px), 1fr));
  gap: 16px; margin-top: 14px; }
figure { margin: 0; padding: 12px 14px; background: var(--card); min-width: 0;
  border: 1px solid var(--grid); border-radius: 10px; position: relative; }
figure h3 { margin: 0; font-size: 15px; overflow-wrap: anywhere; }
figure h3 small { font-weight: 400; color: var(--soft); margin-left: 6px; }
figcaption { color: var(--soft); font-size: 13px; }
figure svg { display: block; width: 100%; min-height: 200px; height: auto; touch-action: pan-y; }
.head { display: flex; gap: 8px; align-items: baseline; }
.head button { margin-left: auto; visibility: hidden; }
.zoomed .head button { visibility: visible; }
.legend { display: flex; flex-wrap: wrap; gap: 2px 14px; font-size: 13px; }
.legend button { border: 0; background: none; padding: 1px 0; color: var(--ink);
  text-align: left; overflow-wrap: anywhere; }
.legend button.off { opacity: .35; text-decoration: line-through; }
.tip { position: absolute; pointer-events: none; z-index: 4; max-width: 320px;
  background: var(--card); border: 1px solid var(--line); border-radius: 7px;
  padding: 5px 9px; font-size: 12.5px; box-shadow: 0 2px 9px #0003; display: none; }
.tip div { display: flex; gap: 6px; align-items: baseline; }
.tip b { margin-left: auto; padding-left: 10px; font-variant-numeric: tabular-nums; }
.heat td { padding: 0; border: 1px solid var(--card); width: 13px; height: 15px; min-width: 9px; }
.heat th { padding: 0 8px 0 0; border: 0; text-align: right; }
.share { display: inline-block; height: 9px; border-radius: 4px; background: var(--accent);
  vertical-align: middle; margin-right: 8px; }
details { margin: 8px 0; } summary { cursor: pointer; color: var(--soft); }
footer { color: var(--soft); font-size: 13px; margin: 40px 0 30px; }
@media (max-width: 600px) { header, main { padding: 0 12px; } h1 { font-size: 20px; }
  .tools { position: static; }
  figure { padding: 10px 8px; } }
@media print { .tools { display: none; } figure { break-inside: avoid; } }
)css";

}  // namespace trireme::app
