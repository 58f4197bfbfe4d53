# Draws predicted and measured steps: rows of "ranks predicted measured deck" become SVG.
# SPDX-License-Identifier: Apache-2.0
function place(ms) { return (log(ms) - low) / (high - low) }
function x_of(ms) { return 70 + 500 * place(ms) }
function y_of(ms) { return 530 - 500 * place(ms) }
function line(from_x, from_y, to_x, to_y, kind) {
  printf "<line class=\"%s\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", kind, x_of(from_x), y_of(from_y), x_of(to_x), y_of(to_y)
}
{
  ranks[NR] = $1; predicted[NR] = $2; measured[NR] = $3
  least = NR == 1 || $2 < least ? $2 : least; least = $3 < least ? $3 : least
  most = $2 > most ? $2 : most; most = $3 > most ? $3 : most
}
END {
  from = least / 1.3; to = most * 1.3
  low = log(from); high = log(to)
  split("#2a78b8 #c8641e #2f8f4e #8a55b0", colour, " ")
  print "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 600 590\" font-family=\"sans-serif\" font-size=\"13\">"
  print "<style>svg{background:#fff;color:#222}text{fill:currentColor}line{stroke:currentColor}" \
        ".grid{opacity:.15}.near{opacity:.4;stroke-dasharray:4 4}" \
        "@media(prefers-color-scheme:dark){svg{background:#181a1f;color:#ddd}}</style>"
  for (ten = 1; ten < to; ten *= 10)
    for (i = 1; i <= 5; i += i < 2 ? 1 : 3) {
      tick = ten * i
      if (tick < from || tick > to) continue
      line(tick, from, tick, to, "grid")
      line(from, tick, to, tick, "grid")
      printf "<text x=\"%.1f\" y=\"548\" text-anchor=\"middle\">%g</text>\n", x_of(tick), tick
      printf "<text x=\"62\" y=\"%.1f\" text-anchor=\"end\">%g</text>\n", y_of(tick) + 4, tick
    }
  line(from, from, to, to, "same")
  line(from * 1.2, from, to, to / 1.2, "near")
  line(from, from * 1.2, to / 1.2, to, "near")
  for (i = 1; i <= NR; i++)
    printf "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4.5\" fill=\"%s\"/>\n", x_of(measured[i]), y_of(predicted[i]), colour[ranks[i]]
  for (r = 1; r <= 4; r++)
    printf "<circle cx=\"90\" cy=\"%d\" r=\"4.5\" fill=\"%s\"/><text x=\"100\" y=\"%d\">%d rank%s</text>\n", 25 + 20 * r, colour[r], 29 + 20 * r, r, (r > 1 ? "s" : "")
  print "<text x=\"320\" y=\"575\" text-anchor=\"middle\">measured step, ms (dashed: 20 % off)</text>"
  print "<text transform=\"translate(18 280) rotate(-90)\" text-anchor=\"middle\">predicted step, ms</text>"
  print "</svg>"
}
