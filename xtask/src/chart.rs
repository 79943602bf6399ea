//! A chart of bars as an SVG file, light and dark.

use std::fmt::Write;

/// A bar of the chart: how often as fast as what it is measured against.
pub struct Bar {
    /// Who is measured, and against whom.
    pub label: String,
    /// The length of the bar.
    pub ratio: f64,
}

const LABELS: u32 = 400;
const WIDEST: f64 = 300.0;
const LINE: u32 = 30;
const TOP: u32 = 40;

/// Draws bars under a title; a line stands at 1, where both are equally fast.
pub fn chart(title: &str, bars: &[Bar]) -> String {
    let most = bars.iter().map(|bar| bar.ratio).fold(1.0, f64::max);
    let width = |ratio: f64| ratio / most * WIDEST;
    let height = TOP + LINE * bars.len() as u32 + 8;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"780\" height=\"{height}\" viewBox=\"0 0 780 {height}\" role=\"img\" \
         aria-label=\"{title}\">\n<title>{title}</title>\n<style>\n\
         text {{ font: 13px system-ui, sans-serif; fill: #1c1f24; }}\n.head {{ font-weight: 600; font-size: 14px; }}\n\
         rect {{ fill: #3b7dd8; }}\nline {{ stroke: #8a919d; stroke-dasharray: 3 3; }}\n\
         @media (prefers-color-scheme: dark) {{\n  text {{ fill: #e5e8ec; }}\n  rect {{ fill: #5b9bf0; }}\n}}\n</style>\n\
         <text class=\"head\" x=\"12\" y=\"22\">{title}</text>\n"
    );
    for (at, bar) in bars.iter().enumerate() {
        let y = TOP + LINE * at as u32;
        let (end, label, ratio) = (f64::from(LABELS) + width(bar.ratio), &bar.label, bar.ratio);
        let _ = writeln!(
            text,
            "<text x=\"12\" y=\"{}\">{label}</text>\n<rect x=\"{LABELS}\" y=\"{y}\" width=\"{:.0}\" height=\"20\" rx=\"3\"/>\n\
             <text x=\"{:.0}\" y=\"{}\">{ratio:.2} ×</text>",
            y + 15,
            width(ratio),
            end + 8.0,
            y + 15
        );
    }
    let one = f64::from(LABELS) + width(1.0);
    let _ = writeln!(text, "<line x1=\"{one:.0}\" x2=\"{one:.0}\" y1=\"{}\" y2=\"{}\"/>\n</svg>", TOP - 6, height - 8);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_as_long_as_their_ratios() {
        let bars = [("a", 4.0), ("b", 0.5)].map(|(label, ratio)| Bar { label: label.to_owned(), ratio });
        let text = chart("t", &bars);
        assert!(text.contains("width=\"300\" height=\"20\"") && text.contains("width=\"38\" height=\"20\""), "{text}");
        assert!(text.contains("<line x1=\"475\"") && text.contains("0.50 ×"), "{text}");
    }
}
