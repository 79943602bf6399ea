//! The manifest of a bundle, as values. What it may hold is said where it is written, at `write_bundle`; keys that are
//! not read here may be of any form.

use std::collections::BTreeSet;
use std::str::FromStr;

use fusewright_abi::{
    ABI_VERSION, Claim, Count, DType, DimArg, DimSource, LaunchRule, ManyRows, Param, ParamAccess, PayloadKind,
    RowOrder,
};
use serde_json::Value;

use super::{BundleError, Code, Entry, is_below};

type Parsed<T> = Result<T, BundleError>;

/// The name of the model, and the kernels.
pub(super) fn parse(bytes: &[u8]) -> Parsed<(String, Vec<Entry>)> {
    let value: Value = serde_json::from_slice(bytes)
        .map_err(|e| BundleError::Manifest { place: "the whole file".to_owned(), reason: e.to_string() })?;
    let manifest = At { value: &value, place: String::new() };
    let version = manifest.key("abi")?.number()?;
    if version != u64::from(ABI_VERSION) {
        return Err(BundleError::Version { found: version });
    }
    let mut names = BTreeSet::new();
    let kernels = manifest.key("kernels")?.map(|at| {
        let entry = entry(at)?;
        let once = names.insert((entry.target.clone(), entry.name.clone()));
        if once { Ok(entry) } else { at.refuse("another kernel of the target has the same name") }
    })?;
    Ok((manifest.key("model")?.text()?.to_owned(), kernels))
}

fn entry(at: &At<'_>) -> Parsed<Entry> {
    let dims: Vec<DimArg> = at.key("dims")?.map(dim)?;
    let names: Vec<&str> = dims.iter().map(|dim| dim.name.as_str()).collect();
    let listed = at.key("params")?;
    let params = listed.map(|p| param(p, &names))?;
    let shapes = listed.map(|p| p.key("shape")?.map(|extent| extent.text().map(str::to_owned)))?;
    for (i, param) in params.iter().enumerate() {
        if param.rank as usize != shapes[i].len() || param.alias.is_some_and(|alias| alias >= params.len()) {
            return listed.refuse(&format!("`{}` has another rank, or the memory of no parameter", param.name));
        }
    }
    for dim in &dims {
        if let DimSource::Extent { param, axis } | DimSource::Stride { param, axis } = dim.source
            && shapes.get(param).is_none_or(|shape| axis >= shape.len())
        {
            return at.key("dims")?.refuse(&format!("`{}` is of an axis that there is not", dim.name));
        }
    }
    let values = |of: &At<'_>| {
        let values = of.map(|value| value.text().map(str::to_owned))?;
        if values.len() == params.len() { Ok(values) } else { of.refuse("not a value for each parameter") }
    };
    Ok(Entry {
        uses: at.key("uses")?.map(values)?,
        name: at.key("name")?.identifier()?,
        pattern: at.key("pattern")?.text()?.to_owned(),
        target: at.key("target")?.word()?,
        key: at.key("key")?.word()?,
        claims: at.key("claims")?.map(|claim| {
            Ok(Claim { least: claim.key("least")?.count(&names)?, most: claim.key("most")?.count(&names)? })
        })?,
        launch: launch(at, &names, &params)?,
        code: code(&at.key("code")?)?,
        params,
        shapes,
        dims,
    })
}

fn code(at: &At<'_>) -> Parsed<Code> {
    let (file, kind) = (at.key("file")?, at.key("kind")?);
    let path = file.text()?;
    if !is_below(path) {
        return file.refuse("the path leaves the bundle");
    }
    let Some(known) = PayloadKind::of_extension(kind.text()?) else { return kind.refuse("no kind of code") };
    let (bytes, sha256) = (at.key("bytes")?.number()?, at.key("sha256")?.word()?);
    Ok(Code { file: path.to_owned(), kind: known, bytes, sha256 })
}

fn param(at: &At<'_>, names: &[&str]) -> Parsed<Param> {
    let access = at.key("access")?;
    let Some(known) = ParamAccess::of_name(access.text()?) else { return access.refuse("no such access") };
    Ok(Param {
        name: at.key("name")?.text()?.to_owned(),
        dtype: at.key("dtype")?.word::<DType>()?,
        access: known,
        rank: at.key("rank")?.small()?,
        elements: at.key("elements")?.count(names)?,
        alias: at.optional("alias").map(|alias| alias.index()).transpose()?,
        early: at.optional("early").map(|early| early.truth()).transpose()?.unwrap_or(false),
    })
}

fn dim(at: &At<'_>) -> Parsed<DimArg> {
    let source = at.key("source")?;
    let axis = |of: &At<'_>| match of.map(At::index)?[..] {
        [param, axis] => Ok((param, axis)),
        _ => of.refuse("not a parameter and an axis"),
    };
    let source = if let Some(of) = source.optional("extent") {
        axis(&of).map(|(param, axis)| DimSource::Extent { param, axis })?
    } else if let Some(of) = source.optional("stride") {
        axis(&of).map(|(param, axis)| DimSource::Stride { param, axis })?
    } else if source.text()? == "symbol" {
        DimSource::Symbol
    } else {
        return source.refuse("no such source");
    };
    Ok(DimArg { name: at.key("name")?.text()?.to_owned(), source })
}

fn launch(at: &At<'_>, names: &[&str], params: &[Param]) -> Parsed<LaunchRule> {
    let many = at.optional("many").map(|many| {
        Ok(ManyRows {
            from: many.key("from")?.index()?,
            blocks_per_row: many.key("blocks_per_row")?.count(names)?,
            shares: many.key("shares")?.positive()?,
            threads: many.key("threads")?.positive()?,
        })
    });
    Ok(LaunchRule {
        rows: at.key("rows")?.count(names)?,
        order: order(&at.key("row_order")?, params)?,
        blocks_per_row: at.key("blocks_per_row")?.count(names)?,
        shares: at.key("shares")?.positive()?,
        many: many.transpose()?,
        threads: at.key("threads")?.positive()?,
        dependent: at.key("dependent")?.truth()?,
        shared: at.key("shared")?.count(names)?,
        alignment: at.key("alignment")?.positive()?,
        tables: tables(&at.key("code")?.key("tables")?)?,
    })
}

fn tables(at: &At<'_>) -> Parsed<u32> {
    let tables = at.small()?;
    if tables <= LaunchRule::MOST_TABLES { Ok(tables) } else { at.refuse("too many tables") }
}

fn order(at: &At<'_>, params: &[Param]) -> Parsed<RowOrder> {
    if let Some(chosen) = at.optional("chosen") {
        let param = chosen.index()?;
        let places = params.get(param).is_some_and(|p| matches!(p.dtype, DType::I32 | DType::I64));
        return if places { Ok(RowOrder::Chosen { param }) } else { chosen.refuse("no parameter of places") };
    }
    match at.text()? {
        "any" => Ok(RowOrder::Any),
        "ascending" => Ok(RowOrder::Ascending),
        _ => at.refuse("no such order"),
    }
}

/// A value of the manifest, and where it stands.
struct At<'a> {
    value: &'a Value,
    place: String,
}

impl<'a> At<'a> {
    fn refuse<T>(&self, reason: &str) -> Parsed<T> {
        Err(BundleError::Manifest { place: self.place.clone(), reason: reason.to_owned() })
    }

    fn key(&self, key: &str) -> Parsed<At<'a>> {
        self.optional(key).map_or_else(|| self.refuse(&format!("`{key}` is missing")), Ok)
    }

    /// The value of a key; none if it is missing or null.
    fn optional(&self, key: &str) -> Option<At<'a>> {
        let dot = if self.place.is_empty() { "" } else { "." };
        let value = self.value.get(key).filter(|value| !value.is_null())?;
        Some(At { value, place: format!("{}{dot}{key}", self.place) })
    }

    fn map<T>(&self, mut each: impl FnMut(&At<'a>) -> Parsed<T>) -> Parsed<Vec<T>> {
        let Value::Array(items) = self.value else { return self.refuse("not a list") };
        let at = |(i, value): (usize, &'a Value)| each(&At { value, place: format!("{}[{i}]", self.place) });
        items.iter().enumerate().map(at).collect()
    }

    fn text(&self) -> Parsed<&'a str> {
        self.value.as_str().map_or_else(|| self.refuse("not a text"), Ok)
    }

    fn number(&self) -> Parsed<u64> {
        self.value.as_u64().map_or_else(|| self.refuse("not a number of things"), Ok)
    }

    fn truth(&self) -> Parsed<bool> {
        self.value.as_bool().map_or_else(|| self.refuse("neither true nor false"), Ok)
    }

    fn index(&self) -> Parsed<usize> {
        usize::try_from(self.number()?).or_else(|_| self.refuse("too large"))
    }

    fn small(&self) -> Parsed<u32> {
        u32::try_from(self.number()?).or_else(|_| self.refuse("too large"))
    }

    fn positive(&self) -> Parsed<u32> {
        let number = self.small()?;
        if number > 0 { Ok(number) } else { self.refuse("is zero") }
    }

    /// A text that is parsed elsewhere.
    fn word<T: FromStr<Err: ToString>>(&self) -> Parsed<T> {
        self.text()?.parse().or_else(|e: T::Err| self.refuse(&e.to_string()))
    }

    fn identifier(&self) -> Parsed<String> {
        let name = self.text()?;
        let plain = name.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'_');
        let right = plain && name.bytes().next().is_some_and(|c| !c.is_ascii_digit());
        if right { Ok(name.to_owned()) } else { self.refuse("no identifier of C") }
    }

    fn count(&self, names: &[&str]) -> Parsed<Count> {
        let text = self.text()?;
        Count::parse(text, names).map_or_else(|| self.refuse(&format!("`{text}` is no expression over `dims`")), Ok)
    }
}
