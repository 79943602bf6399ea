//! Names in files: of no more than [`MAX_NAME`] bytes and without control characters, since tables and errors show them.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use serde::de::{self, Deserialize, Deserializer, MapAccess, Visitor};

use crate::text::MAX_NAME;

/// A name that fits.
struct Name(String);

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct NameVisitor;

        impl Visitor<'_> for NameVisitor {
            type Value = Name;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a name")
            }

            fn visit_str<E: de::Error>(self, name: &str) -> Result<Name, E> {
                if name.len() > MAX_NAME {
                    return Err(E::custom(format_args!("a name of {} bytes, more than {MAX_NAME}", name.len())));
                }
                if name.chars().any(char::is_control) {
                    return Err(E::custom(format_args!("the name \"{}\" has control characters", name.escape_debug())));
                }
                Ok(Name(name.to_owned()))
            }
        }

        deserializer.deserialize_str(NameVisitor)
    }
}

/// Reads a name.
pub(super) fn name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    Name::deserialize(deserializer).map(|name| name.0)
}

/// Reads a name that may be absent.
pub(super) fn some_name<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<String>, D::Error> {
    Option::<Name>::deserialize(deserializer).map(|name| name.map(|name| name.0))
}

/// Reads a table by name, in which no name comes twice.
pub(super) fn by_name<'de, D, T>(deserializer: D) -> Result<BTreeMap<String, T>, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de>,
{
    struct TableVisitor<T>(PhantomData<T>);

    impl<'de, T: Deserialize<'de>> Visitor<'de> for TableVisitor<T> {
        type Value = BTreeMap<String, T>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a table by name")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
            let mut table = BTreeMap::new();
            while let Some(Name(name)) = map.next_key()? {
                if table.contains_key(&name) {
                    return Err(de::Error::custom(format_args!("`{name}` is listed twice")));
                }
                table.insert(name, map.next_value()?);
            }
            Ok(table)
        }
    }

    deserializer.deserialize_map(TableVisitor(PhantomData))
}
