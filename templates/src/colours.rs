//! The colours of pages and pictures, light and dark: one table, so that all of them agree and their contrast is tested.

/// Hues that boxes of kernels have.
pub const HUES: usize = 12;

/// The colours of a scheme, as CSS writes them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scheme {
    /// The page.
    pub back: &'static str,
    /// Words.
    pub text: &'static str,
    /// Words that matter less.
    pub soft: &'static str,
    /// Lines between parts of a page.
    pub line: &'static str,
    /// The ground of code and of boxes that are no kernel.
    pub sheet: &'static str,
    /// Edges of a graph and the rims of its boxes.
    pub edge: &'static str,
    /// The rim of an op that the interpreter computes.
    pub warning: &'static str,
    /// Links, buttons in use, and what has the focus.
    pub link: &'static str,
    /// The series of what is fused.
    pub fused: &'static str,
    /// The series of launches that overlap.
    pub dependent: &'static str,
    /// The series of one kernel per op.
    pub unfused: &'static str,
    /// The series of others.
    pub peer: &'static str,
    /// Saturation and lightness of a kernel's box, in percent.
    fill: (i64, i64),
    /// Saturation and lightness of its rim.
    rim: (i64, i64),
}

/// On white.
pub const LIGHT: Scheme = Scheme {
    back: "#ffffff",
    text: "#1c1f24",
    soft: "#5c6470",
    line: "#d5d9e0",
    sheet: "#f6f7f9",
    edge: "#848c99",
    warning: "#c0392b",
    link: "#1d5fc9",
    fused: "#1f6feb",
    dependent: "#1a7f4b",
    unfused: "#9a6b00",
    peer: "#b3367f",
    fill: (70, 88),
    rim: (60, 36),
};

/// On nearly black.
pub const DARK: Scheme = Scheme {
    back: "#15181d",
    text: "#e5e8ec",
    soft: "#a3abb8",
    line: "#343b46",
    sheet: "#1d2128",
    edge: "#79839a",
    warning: "#ea6a5c",
    link: "#7db2ff",
    fused: "#6ea8ff",
    dependent: "#5fc48d",
    unfused: "#d9a441",
    peer: "#ee7fbd",
    fill: (40, 24),
    rim: (50, 66),
};

impl Scheme {
    /// The ground of a kernel's box of a hue.
    pub fn fill(&self, hue: &usize) -> String {
        rgb(*hue, self.fill)
    }

    /// The rim of a kernel's box of a hue.
    pub fn rim(&self, hue: &usize) -> String {
        rgb(*hue, self.rim)
    }
}

/// A hue of so many percent saturation and lightness. Viewers of SVG files know this spelling; not all know `hsl`.
fn rgb(hue: usize, (saturation, lightness): (i64, i64)) -> String {
    let degrees = (hue % HUES * 360 / HUES) as i64;
    // In hundredths of a percent; `least` is what the weakest of the three has, `most` what the strongest has.
    let reach = saturation * lightness.min(100 - lightness);
    let (least, most) = (lightness * 100 - reach, lightness * 100 + reach);
    let part = |shift: i64| {
        let at = (degrees + shift).rem_euclid(360);
        let value = match at {
            0..60 => least + (most - least) * at / 60,
            60..180 => most,
            180..240 => least + (most - least) * (240 - at) / 60,
            _ => least,
        };
        (value * 255 + 5000) / 10_000
    };
    format!("#{:02x}{:02x}{:02x}", part(120), part(0), part(240))
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The contrast of two colours as WCAG 2 defines it.
    pub(crate) fn contrast(a: &str, b: &str) -> f64 {
        let (a, b) = (luminance(a), luminance(b));
        (a.max(b) + 0.05) / (a.min(b) + 0.05)
    }

    fn luminance(colour: &str) -> f64 {
        let digits = colour.strip_prefix('#').expect("a colour in hexadecimal digits");
        assert_eq!(digits.len(), 6, "{colour}");
        let part = |at: usize| {
            let value = f64::from(u8::from_str_radix(&digits[at..at + 2], 16).expect("two digits")) / 255.0;
            if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * part(0) + 0.7152 * part(2) + 0.0722 * part(4)
    }

    #[test]
    fn hues_are_what_css_makes_of_them() {
        assert_eq!(rgb(0, (100, 50)), "#ff0000");
        assert_eq!(rgb(2, (100, 50)), "#ffff00");
        assert_eq!(rgb(4, (100, 50)), "#00ff00");
        assert_eq!(rgb(8, (100, 50)), "#0000ff");
        assert_eq!(rgb(1, (100, 50)), "#ff8000");
        // hsl(30 70% 88%) and hsl(300 40% 24%).
        assert_eq!((rgb(1, (70, 88)), rgb(10, (40, 24))), ("#f6e0cb".to_owned(), "#562556".to_owned()));
    }

    #[test]
    fn words_and_lines_are_told_from_their_grounds() {
        assert!((contrast("#000000", "#ffffff") - 21.0).abs() < 1e-9);
        for scheme in [LIGHT, DARK] {
            // WCAG 2.1, AA: 4.5 for words (1.4.3), 3 for lines that carry meaning (1.4.11).
            for ground in [scheme.back, scheme.sheet] {
                for words in [scheme.text, scheme.soft, scheme.link] {
                    assert!(contrast(words, ground) >= 4.5, "{words} on {ground}: {}", contrast(words, ground));
                }
                for line in [scheme.edge, scheme.warning, scheme.link] {
                    assert!(contrast(line, ground) >= 3.0, "{line} on {ground}: {}", contrast(line, ground));
                }
            }
            for series in [scheme.fused, scheme.dependent, scheme.unfused, scheme.peer] {
                assert!(contrast(series, scheme.back) >= 3.0, "{series}: {}", contrast(series, scheme.back));
            }
            for hue in 0..HUES {
                let (fill, rim) = (scheme.fill(&hue), scheme.rim(&hue));
                assert!(contrast(scheme.text, &fill) >= 4.5, "{fill}: {}", contrast(scheme.text, &fill));
                assert!(contrast(&rim, scheme.back) >= 3.0, "{rim}: {}", contrast(&rim, scheme.back));
            }
        }
    }
}
