//! Pipelines from TOML.
//!
//! ```toml
//! level = "O2"        # the list to begin with; O2 if it is not given
//! passes = ["matmul", "fold", { name = "raise", rows = "1..256" }, "dce"]   # a list instead of the level's
//! off = ["cse"]       # passes of the list that do not run
//! fuse = true         # whether regions are formed
//! vendor_ops = ["npu_add_rms_norm_quant"]   # ops of a vendor that replace regions; ["all"] for every one, none by default
//! enabled = true      # the primary switch: `false` leaves only what later stages rely on, and nothing fuses
//! ```

use toml::{Table, Value};

use super::pipeline::by_name;
use super::{Level, Pipeline, PipelineError, Stage};

/// Keys of the file.
const KEYS: [&str; 6] = ["level", "passes", "off", "fuse", "enabled", "vendor_ops"];
/// Characters of the longest line of the file that an error repeats.
const WIDEST: usize = 160;
/// Keys of a pass in the list.
const PASS_KEYS: [&str; 3] = ["name", "rows", "on"];

impl Pipeline {
    /// A pipeline from the text of a TOML file.
    ///
    /// # Errors
    /// Text that is not TOML, unknown keys and passes, values of the wrong kind, illegal orders; each names the place.
    pub fn from_toml(text: &str) -> Result<Self, PipelineError> {
        let table: Table = text.parse().map_err(|e: toml::de::Error| not_toml(&e))?;
        known(&table, &KEYS, "a pipeline")?;
        let level = match table.get("level") {
            Some(value) => string(value, "level")?.parse()?,
            None => Level::default(),
        };
        let mut pipeline = Pipeline::level(level);
        if let Some(value) = table.get("passes") {
            let stages = array(value, "passes")?.iter().map(stage).collect::<Result<_, _>>()?;
            let fuses = pipeline.fuses();
            pipeline = Pipeline::new(stages)?;
            pipeline.set_fuse(fuses);
        }
        if let Some(value) = table.get("off") {
            for name in array(value, "off")? {
                pipeline.switch(string(name, "off")?, false)?;
            }
        }
        if let Some(value) = table.get("fuse") {
            pipeline.set_fuse(boolean(value, "fuse")?);
        }
        if let Some(value) = table.get("vendor_ops") {
            for name in array(value, "vendor_ops")? {
                pipeline.switch_vendor_op(string(name, "vendor_ops")?, true)?;
            }
        }
        match table.get("enabled") {
            Some(value) if !boolean(value, "enabled")? => pipeline.disable(),
            _ => {}
        }
        Ok(pipeline)
    }
}

/// A pass of the list: its name, or a table.
fn stage(value: &Value) -> Result<Stage, PipelineError> {
    let Value::Table(table) = value else { return Ok(Stage::new(by_name(string(value, "passes")?)?)) };
    known(table, &PASS_KEYS, "a pass")?;
    let name = table.get("name").ok_or_else(|| config("a pass of `passes` has no `name`"))?;
    let mut stage = Stage::new(by_name(string(name, "name")?)?);
    if let Some(rows) = table.get("rows") {
        stage.rows = string(rows, "rows")?.parse()?;
    }
    if let Some(on) = table.get("on") {
        stage.on = boolean(on, "on")?;
    }
    Ok(stage)
}

/// The reader's error; it repeats the line, which a file of a program may not have cut at all.
fn not_toml(error: &toml::de::Error) -> PipelineError {
    let text = error.to_string();
    let wide = text.lines().any(|line| line.chars().count() > WIDEST);
    let place = text.lines().next().unwrap_or_default();
    if wide { config(format!("{place}: {}", error.message())) } else { config(text.trim_end()) }
}

fn known(table: &Table, keys: &[&str], what: &str) -> Result<(), PipelineError> {
    match table.keys().find(|key| !keys.contains(&key.as_str())) {
        Some(key) => Err(config(format!("{what} has no key `{key}`; there are {}", keys.join(", ")))),
        None => Ok(()),
    }
}

fn config(message: impl AsRef<str>) -> PipelineError {
    PipelineError::Config(message.as_ref().to_owned())
}

fn string<'v>(value: &'v Value, key: &str) -> Result<&'v str, PipelineError> {
    value.as_str().ok_or_else(|| config(format!("`{key}` takes a string, not {}", value.type_str())))
}

fn boolean(value: &Value, key: &str) -> Result<bool, PipelineError> {
    value.as_bool().ok_or_else(|| config(format!("`{key}` takes true or false, not {}", value.type_str())))
}

fn array<'v>(value: &'v Value, key: &str) -> Result<&'v Vec<Value>, PipelineError> {
    value.as_array().ok_or_else(|| config(format!("`{key}` takes an array, not {}", value.type_str())))
}
