//! The page of `bench`: one file, no network, no script.

use askama::Template;

use crate::page::Table;

/// A measured value in a drawing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Point {
    /// From the left edge, in pixels.
    pub x: i64,
    /// From the upper edge, in pixels.
    pub y: i64,
    /// What is shown where the pointer rests.
    pub hint: String,
}

/// The values of one implementation.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Series {
    /// CSS class: `fused`, `dependent`, `unfused`, `copy` or `peer`.
    pub class: &'static str,
    /// From left to right.
    pub points: Vec<Point>,
}

impl Series {
    /// As an SVG list of points.
    fn line(&self) -> String {
        self.points.iter().map(|p| format!("{},{}", p.x, p.y)).collect::<Vec<_>>().join(" ")
    }
}

/// A line of the grid, or a place on an axis.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mark {
    /// Where it is on its axis, in pixels.
    pub at: i64,
    /// What stands there.
    pub text: String,
    /// Whether it is the line that others are compared with.
    pub base: bool,
}

/// A drawing of several series over numbers of rows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Chart {
    /// What is drawn, with its unit.
    pub caption: String,
    /// Width, in pixels.
    pub width: i64,
    /// Height, in pixels.
    pub height: i64,
    /// Horizontal lines.
    pub grid: Vec<Mark>,
    /// Numbers of rows.
    pub ticks: Vec<Mark>,
    /// What is drawn.
    pub series: Vec<Series>,
}

/// One graph that was measured.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Case {
    /// Its name.
    pub name: String,
    /// Its drawings.
    pub charts: Vec<Chart>,
}

/// The whole page.
#[derive(Clone, Debug, Template)]
#[template(path = "html/bench.html", syntax = "html")]
pub struct BenchPage {
    /// What was measured.
    pub title: String,
    /// Figures at the top: value and what it is.
    pub summary: Vec<(String, String)>,
    /// What the colours are: CSS class and words.
    pub legend: Vec<(&'static str, String)>,
    /// Every graph.
    pub cases: Vec<Case>,
    /// All figures.
    pub table: Table,
}

impl BenchPage {
    /// The page as text.
    ///
    /// # Errors
    /// None that this template can raise; askama's words if it does.
    pub fn text(&self) -> Result<String, String> {
        self.render().map_err(|e| e.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::colours::tests::contrast;

    #[test]
    fn series_are_told_from_the_page_and_from_each_other() {
        let page = BenchPage {
            title: "a & b".to_owned(),
            summary: Vec::new(),
            legend: Vec::new(),
            cases: Vec::new(),
            table: Table { title: "t".to_owned(), head: Vec::new(), rows: Vec::new() },
        };
        let text = page.text().expect("renders");
        for loads in ["<script", "src=", "@import", "<link", "url(", "://"] {
            assert!(!text.contains(loads), "the page loads something by `{loads}`");
        }
        let colours = |name: &str| -> Vec<&str> {
            let mark = format!("--{name}: ");
            let found = text.split(mark.as_str()).skip(1).filter_map(|rest| rest.split(';').next());
            found.filter(|colour| colour.starts_with('#')).collect()
        };
        let grounds = colours("back");
        assert_eq!(grounds.len(), 2, "one per scheme: {text}");
        for series in ["fused", "dependent", "unfused", "copy", "peer"] {
            for (colour, ground) in colours(series).into_iter().zip(&grounds) {
                assert!(contrast(colour, ground) >= 3.0, "{series}: {colour} on {ground}");
            }
            assert_eq!(colours(series).len(), 2, "{series}");
        }
        // Some are dashed, for those who do not tell colours.
        assert_eq!(text.matches("--dash: ").count(), 2, "{text}");
    }
}
