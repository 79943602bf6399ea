//! Rows of figures, and the file that a run goes on from.

use std::path::Path;

use serde_json::{Value, json};

use super::exact::Mismatch;
use crate::{Error, write_whole};

/// Figures of one op at one row length and one number of rows. Times are medians, in microseconds per launch.
#[derive(Clone, PartialEq, Debug)]
pub struct GpuRow {
    /// Letter of the op, or its name if it has none.
    pub op: String,
    /// Whether it rounds as the anchors do.
    pub anchor: bool,
    /// Row length.
    pub dim: usize,
    /// Rows.
    pub rows: usize,
    /// The fewest bytes that it moves.
    pub bytes: usize,
    /// Launched plainly, caches empty; what went wrong, if something did.
    pub us: Result<f64, String>,
    /// The same with inputs in the cache, if they fit.
    pub hot_us: Option<f64>,
    /// Launched to begin while the launch before ends, if the kernel can.
    pub pdl_us: Option<f64>,
    /// The same with inputs in the cache.
    pub hot_pdl_us: Option<f64>,
    /// The best copy of as many bytes in the same run.
    pub copy_us: Option<f64>,
    /// The same in the cache.
    pub hot_copy_us: Option<f64>,
    /// Per output, what differs from the interpreter in a sample of rows.
    pub mismatched: Vec<Mismatch>,
    /// Registers of a thread.
    pub registers: Option<u32>,
    /// Bytes that a thread spills.
    pub local_bytes: Option<u32>,
}

impl GpuRow {
    /// What the row is about.
    pub fn key(&self) -> (&str, bool, usize, usize) {
        (&self.op, self.anchor, self.dim, self.rows)
    }

    /// Whether it was measured, and computes what it should.
    pub fn is_right(&self) -> bool {
        self.us.is_ok() && self.mismatched.iter().all(|m| m.differ == 0)
    }

    /// As JSON.
    pub fn to_json(&self) -> Value {
        let mismatched: serde_json::Map<String, Value> = self.mismatched.iter().map(mismatch).collect();
        let mut row = json!({
            "op": self.op, "form": if self.anchor { "anchor" } else { "exact" }, "dim": self.dim, "T": self.rows,
            "bytes": self.bytes, "hot_us": self.hot_us, "pdl_us": self.pdl_us, "hot_pdl_us": self.hot_pdl_us,
            "copy_us": self.copy_us, "hot_copy_us": self.hot_copy_us, "mismatched": mismatched,
            "registers": self.registers, "local_bytes": self.local_bytes,
        });
        match &self.us {
            Ok(us) => row["us"] = json!(us),
            Err(error) => row["error"] = json!(error),
        }
        row
    }

    /// From JSON as [`GpuRow::to_json`] writes it.
    pub fn from_json(row: &Value) -> Option<GpuRow> {
        let number = |key: &str| row[key].as_u64().and_then(|n| usize::try_from(n).ok());
        let small = |key: &str| row[key].as_u64().and_then(|n| u32::try_from(n).ok());
        let us = match row["us"].as_f64() {
            Some(us) => Ok(us),
            None => Err(row["error"].as_str()?.to_owned()),
        };
        let mismatched = row["mismatched"].as_object()?.iter().map(|(output, m)| {
            let count = |i: usize| m[i].as_u64().and_then(|n| usize::try_from(n).ok());
            let first = m[2].as_str().map(str::to_owned);
            Some(Mismatch { output: output.clone(), differ: count(0)?, elements: count(1)?, first })
        });
        Some(GpuRow {
            op: row["op"].as_str()?.to_owned(),
            anchor: row["form"] == "anchor",
            dim: number("dim")?,
            rows: number("T")?,
            bytes: number("bytes")?,
            us,
            hot_us: row["hot_us"].as_f64(),
            pdl_us: row["pdl_us"].as_f64(),
            hot_pdl_us: row["hot_pdl_us"].as_f64(),
            copy_us: row["copy_us"].as_f64(),
            hot_copy_us: row["hot_copy_us"].as_f64(),
            mismatched: mismatched.collect::<Option<_>>()?,
            registers: small("registers"),
            local_bytes: small("local_bytes"),
        })
    }
}

fn mismatch(m: &Mismatch) -> (String, Value) {
    (
        m.output.clone(),
        m.first.as_ref().map_or_else(|| json!([m.differ, m.elements]), |first| json!([m.differ, m.elements, first])),
    )
}

/// All rows of a device, as they are written.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct GpuResults {
    /// What the driver calls the device.
    pub device: String,
    /// Version of CUDA that the driver is of.
    pub driver: String,
    /// What was measured.
    pub rows: Vec<GpuRow>,
}

impl GpuResults {
    /// As JSON.
    pub fn to_json(&self) -> Value {
        let row = |row: &GpuRow| {
            let mut row = row.to_json();
            row["device"] = json!(self.device);
            row["driver"] = json!(self.driver);
            row
        };
        json!({ "suite": "kernels", "rows": self.rows.iter().map(row).collect::<Vec<_>>() })
    }

    /// The rows of a file that an earlier run wrote for the same device and driver; none if there is no file.
    ///
    /// # Errors
    /// A file that cannot be read, is of another form, or is of another device.
    pub fn open(&self, path: &Path) -> Result<GpuResults, Error> {
        let bad = |what: &str| Error::Input(format!("{}: {what}", path.display()));
        let text = match std::fs::read_to_string(path) {
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(self.clone()),
            text => text.map_err(|e| bad(&e.to_string()))?,
        };
        let file: Value = serde_json::from_str(&text).map_err(|e| bad(&e.to_string()))?;
        let rows = file["rows"].as_array().ok_or_else(|| bad("no list `rows`"))?;
        for row in rows {
            let there = (row["device"].as_str().unwrap_or_default(), row["driver"].as_str().unwrap_or_default());
            if there != (self.device.as_str(), self.driver.as_str()) {
                return Err(bad(&format!(
                    "its figures are of {} with driver {}, not of {} with driver {}",
                    there.0, there.1, self.device, self.driver
                )));
            }
        }
        let rows = rows.iter().map(GpuRow::from_json).collect::<Option<Vec<_>>>();
        Ok(GpuResults { rows: rows.ok_or_else(|| bad("a row is of another form"))?, ..self.clone() })
    }

    /// The rows of a file that a run on some device wrote.
    ///
    /// # Errors
    /// A file that cannot be read, is of another form, has no rows, or has those of several devices.
    pub fn read(path: &Path) -> Result<GpuResults, Error> {
        let bad = |what: &str| Error::Input(format!("{}: {what}", path.display()));
        let text = std::fs::read_to_string(path).map_err(|e| bad(&e.to_string()))?;
        let file: Value = serde_json::from_str(&text).map_err(|e| bad(&e.to_string()))?;
        let first = file["rows"].get(0).ok_or_else(|| bad("no list `rows`, or an empty one"))?;
        let about = |key: &str| first[key].as_str().unwrap_or_default().to_owned();
        GpuResults { device: about("device"), driver: about("driver"), rows: Vec::new() }.open(path)
    }

    /// Writes the file.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), Error> {
        let text = format!("{:#}\n", self.to_json());
        write_whole(path, text.as_bytes())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// A row of an op that takes so long.
    pub fn row(op: &str, rows: usize, us: f64) -> GpuRow {
        GpuRow {
            op: op.to_owned(),
            anchor: false,
            dim: 5120,
            rows,
            bytes: 30_720,
            us: Ok(us),
            hot_us: Some(us / 2.0),
            pdl_us: None,
            hot_pdl_us: None,
            copy_us: Some(1.0),
            hot_copy_us: None,
            mismatched: vec![Mismatch { output: "y".to_owned(), differ: 0, elements: 5120, first: None }],
            registers: Some(40),
            local_bytes: Some(0),
        }
    }

    #[test]
    fn a_run_goes_on_from_its_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("rows.json");
        let empty = GpuResults { device: "a GPU".into(), driver: "CUDA 13.0".into(), rows: Vec::new() };
        assert_eq!(empty.open(&path).expect("no file is no rows"), empty);
        let mut wrong = row("D", 8, 2.5);
        wrong.us = Err("kernel `d`: refused".to_owned());
        wrong.mismatched[0].differ = 3;
        wrong.mismatched[0].first = Some("[0] is 1, should be 2".to_owned());
        let results = GpuResults { rows: vec![row("A", 1, 1.25), wrong], ..empty.clone() };
        results.save(&path).expect("written");
        assert_eq!(empty.open(&path).expect("read"), results);
        assert!(!results.rows[1].is_right() && results.rows[0].is_right());
        let other = GpuResults { device: "another".into(), ..empty };
        assert!(other.open(&path).expect_err("is refused").to_string().contains("a GPU"));
        assert_eq!(GpuResults::read(&path).expect("read without a device"), results);
        assert!(GpuResults::read(&folder.path().join("none.json")).is_err());
        std::fs::write(&path, r#"{"rows": []}"#).expect("written");
        assert!(GpuResults::read(&path).expect_err("has no rows").to_string().contains("rows.json"));
    }
}
