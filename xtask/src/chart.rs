//! A chart of bars as an SVG file, light and dark.

use std::fmt::Write;

/// A bar of the chart: how often as fast as what it is measured against.
pub struct Bar {
    /// Who is measured, and against whom.
    pub label: String,
    /// The length of the bar.
    pub ratio: f64,
}

const WIDTH: u32 = 520;
const LEFT: u32 = 16;
const WIDEST: f64 = 400.0;
/// A bar with its label above it: the picture is narrow, so that a phone shows it in letters that are read.
const LINE: u32 = 48;
const TOP: u32 = 68;
const BAR: u32 = 18;

/// Draws bars under a title and a note; a line stands at 1, where both are equally fast.
pub fn chart(title: &str, note: &str, bars: &[Bar]) -> String {
    let most = bars.iter().map(|bar| bar.ratio).fold(1.0, f64::max);
    let width = |ratio: f64| ratio / most * WIDEST;
    let height = TOP + LINE * bars.len() as u32;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{WIDTH}\" height=\"{height}\" viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" \
         aria-label=\"{title}: {note}\">\n<title>{title}</title>\n<style>\n\
         text {{ font: 14px system-ui, sans-serif; fill: #1c1f24; }}\n.head {{ font-weight: 600; font-size: 15px; }}\n\
         .paper {{ fill: #ffffff; }}\n.bar {{ fill: #3b7dd8; }}\nline {{ stroke: #1c1f24; stroke-dasharray: 3 3; }}\n\
         @media (prefers-color-scheme: dark) {{\n  text {{ fill: #e5e8ec; }}\n  .paper {{ fill: #15181d; }}\n  \
         .bar {{ fill: #5b9bf0; }}\n  line {{ stroke: #e5e8ec; }}\n}}\n</style>\n\
         <rect class=\"paper\" width=\"{WIDTH}\" height=\"{height}\" rx=\"8\"/>\n\
         <text class=\"head\" x=\"{LEFT}\" y=\"26\">{title}</text>\n\
         <text x=\"{LEFT}\" y=\"46\">{note}</text>\n"
    );
    let one = f64::from(LEFT) + width(1.0);
    for (at, bar) in bars.iter().enumerate() {
        let y = TOP + LINE * at as u32;
        let (end, label, ratio) = (f64::from(LEFT) + width(bar.ratio), &bar.label, bar.ratio);
        let _ = writeln!(
            text,
            "<text x=\"{LEFT}\" y=\"{}\">{label}</text>\n\
             <rect class=\"bar\" x=\"{LEFT}\" y=\"{}\" width=\"{:.0}\" height=\"{BAR}\" rx=\"3\"/>\n\
             <line x1=\"{one:.0}\" x2=\"{one:.0}\" y1=\"{}\" y2=\"{}\"/>\n\
             <text x=\"{:.0}\" y=\"{}\">{ratio:.2} ×</text>",
            y + 8,
            y + 14,
            width(ratio),
            y + 12,
            y + 16 + BAR,
            end.max(one) + 8.0,
            y + 14 + BAR - 4
        );
    }
    text += "</svg>\n";
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_their_ratios() {
        let bars = [("a", 4.0), ("b", 0.5)].map(|(label, ratio)| Bar { label: label.to_owned(), ratio });
        let text = chart("t", "n", &bars);
        assert!(text.contains("width=\"400\" height=\"18\"") && text.contains("width=\"50\" height=\"18\""), "{text}");
        // The line of 1 crosses every bar.
        assert_eq!(text.matches("<line x1=\"116\"").count(), 2, "{text}");
        assert!(text.contains("0.50 ×"), "{text}");
        // Both schemes have a ground of their own: the page around the picture may have another scheme.
        assert_eq!(text.matches(".paper {").count(), 2, "{text}");
    }
}
