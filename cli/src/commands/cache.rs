//! `cache`: the kernel cache on disk.

use std::time::{SystemTime, UNIX_EPOCH};

use fusewright::disk::{DiskCache, EntryFile, Label};
use fusewright::{CacheChoice, Error, kernel_cache};
use serde_json::{Value, json};

use super::{Exit, FAILED, OK};
use crate::args::{CacheArgs, CacheVerb};
use crate::output::{counted, line, table};

/// A file, and what it holds or why it would not be used.
type Checked = (EntryFile, Result<Label, String>);

pub fn main(args: &CacheArgs) -> Exit {
    let unavailable = Error::Unavailable;
    if args.verb == CacheVerb::Path {
        let folder = CacheChoice::Environment.folder().map_err(unavailable)?;
        let folder = folder.map(|folder| folder.display().to_string());
        line(if args.json { json!({ "folder": folder }).to_string() } else { folder.unwrap_or_else(off) });
        return Ok(OK);
    }
    let Some(cache) = kernel_cache(&CacheChoice::Environment).map_err(unavailable)? else {
        line(if args.json { json!({ "folder": null }).to_string() } else { off() });
        return Ok(OK);
    };
    match args.verb {
        CacheVerb::Path | CacheVerb::List => list(&cache, args.json),
        CacheVerb::Verify => verify(&cache, args.json),
        CacheVerb::Clear => clear(&cache, args.json),
    }
}

fn off() -> String {
    format!("off ({} says so)", fusewright::knobs::CACHE_DIR.name)
}

fn checked(cache: &DiskCache) -> Result<Vec<Checked>, Error> {
    let files = cache.entries().map_err(|e| Error::Unavailable(e.to_string()))?;
    let check = |file: EntryFile| {
        let found = cache.check(&file).map_err(|e| e.to_string());
        (file, found)
    };
    Ok(files.into_iter().map(check).collect())
}

fn list(cache: &DiskCache, json: bool) -> Exit {
    let files = checked(cache)?;
    let bytes: u64 = files.iter().map(|(file, _)| file.bytes).sum();
    if json {
        let entries: Vec<Value> = files.iter().map(json_entry).collect();
        line(json!({ "folder": cache.folder(), "limit": cache.limit(), "bytes": bytes, "entries": entries }));
        return Ok(OK);
    }
    let now = SystemTime::now();
    let row = |(file, found): &Checked| {
        let (kernel, target) = match found {
            Ok(label) => (label.kernel.clone(), label.target.to_string()),
            Err(reason) => (reason.clone(), "-".to_owned()),
        };
        let hours = now.duration_since(file.used).map_or(0, |age| age.as_secs() / 3600);
        let key = file.key.map_or_else(|| "-".to_owned(), |key| key.short());
        vec![key, target, file.bytes.to_string(), hours.to_string(), kernel]
    };
    table(
        &["key", "target", "bytes", "hours since use", "kernel"],
        &files.iter().map(row).collect::<Vec<_>>(),
        &[2, 3],
    );
    let limit = cache.limit();
    line(format!("{} in {}, {bytes} of {limit} bytes", counted(files.len(), "entry"), cache.folder().display()));
    Ok(OK)
}

fn json_entry((file, found): &Checked) -> Value {
    let used = file.used.duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    json!({
        "key": file.key.map(|key| key.to_string()),
        "file": file.path,
        "bytes": file.bytes,
        "used": used,
        "kernel": found.as_ref().ok().map(|label| &label.kernel),
        "target": found.as_ref().ok().map(|label| label.target.to_string()),
        "wrong": found.as_ref().err(),
    })
}

fn verify(cache: &DiskCache, json: bool) -> Exit {
    let files = checked(cache)?;
    let wrong: Vec<&Checked> = files.iter().filter(|(_, found)| found.is_err()).collect();
    if json {
        let wrong: Vec<Value> = wrong.iter().map(|file| json_entry(file)).collect();
        line(json!({ "folder": cache.folder(), "entries": files.len(), "wrong": wrong }));
    } else {
        wrong.iter().filter_map(|(_, found)| found.as_ref().err()).for_each(line);
        line(format!("{}, {} wrong", counted(files.len(), "entry"), wrong.len()));
    }
    Ok(if wrong.is_empty() { OK } else { FAILED })
}

fn clear(cache: &DiskCache, json: bool) -> Exit {
    let (removed, bytes) = cache.clear().map_err(|e| Error::Unavailable(e.to_string()))?;
    if json {
        line(json!({ "folder": cache.folder(), "removed": removed, "bytes": bytes }));
    } else {
        line(format!("{} of {bytes} bytes removed from {}", counted(removed, "entry"), cache.folder().display()));
    }
    Ok(OK)
}
