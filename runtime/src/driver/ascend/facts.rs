//! What a device says of itself, and whether code of a chip runs on it.

use fusewright_acl_sys as sys;

use super::api::{Api, Failure, text};

/// The chip that kernels are compiled for, in numbers of the vendor.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Chip {
    /// Name that the runtime has for it, such as `Ascend910B1`.
    pub soc: String,
    /// Number of its architecture, such as 2201.
    pub architecture: u32,
    /// Vector cores that kernels may count on.
    pub vector_cores: u32,
    /// Bytes of unified buffer that kernels use at most.
    pub buffer_bytes: u64,
}

/// What a device says of itself; what its runtime does not say is missing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Facts {
    pub soc: String,
    pub architecture: Option<u32>,
    pub vector_cores: Option<u32>,
    pub buffer_bytes: Option<u64>,
    pub cache_bytes: Option<usize>,
}

impl Facts {
    /// Asks the runtime. Older ones know the name alone, and some attributes are of newer devices.
    pub fn of(api: &Api, device: i32) -> Facts {
        // SAFETY: the function gives a constant string, or null.
        let soc = unsafe { text((api.acl.aclrtGetSocName)()) };
        let attribute = |which: sys::aclrtDevAttr| {
            let (ask, mut value) = (api.acl.aclrtGetDeviceInfo?, 0);
            // SAFETY: the function writes one number.
            let answer = unsafe { ask(device.unsigned_abs(), which, &mut value) };
            api.said("aclrtGetDeviceInfo", answer).ok().filter(|()| value > 0).map(|()| value)
        };
        Facts {
            soc,
            architecture: attribute(sys::ACL_DEV_ATTR_NPU_ARCH).and_then(|value| u32::try_from(value).ok()),
            vector_cores: attribute(sys::ACL_DEV_ATTR_VECTOR_CORE_NUM).and_then(|value| u32::try_from(value).ok()),
            buffer_bytes: attribute(sys::ACL_DEV_ATTR_UBUF_PER_VECTOR_CORE).map(i64::unsigned_abs),
            cache_bytes: attribute(sys::ACL_DEV_ATTR_L2_CACHE_SIZE).and_then(|value| usize::try_from(value).ok()),
        }
    }

    /// Whether code of a chip runs here.
    ///
    /// # Errors
    /// What the device lacks, or that it does not say enough of itself, in words.
    pub fn run(&self, chip: &Chip) -> Result<(), String> {
        let same = self.soc.eq_ignore_ascii_case(&chip.soc);
        let Facts { soc, architecture, vector_cores, buffer_bytes, .. } = self;
        let lacks = |what: String| Err(format!("{soc} has {what} for {}; kernels can be compiled, not run", chip.soc));
        match architecture {
            Some(is) if *is != chip.architecture => {
                return lacks(format!("architecture {is}, not {} as kernels are made", chip.architecture));
            }
            None if !same => return lacks("no number of its architecture to compare with what is made".to_owned()),
            _ => {}
        }
        match vector_cores {
            Some(cores) if *cores < chip.vector_cores => {
                return lacks(format!("{cores} vector cores, fewer than {} as kernels are made", chip.vector_cores));
            }
            None if !same => return lacks("no number of its cores to compare with what is made".to_owned()),
            _ => {}
        }
        match buffer_bytes {
            Some(bytes) if *bytes < chip.buffer_bytes => {
                lacks(format!("{bytes} bytes of unified buffer, fewer than {} as kernels use", chip.buffer_bytes))
            }
            _ => Ok(()),
        }
    }
}

/// How many devices there are.
pub(super) fn devices(api: &Api) -> Result<u32, Failure> {
    let mut count = 0;
    // SAFETY: the function writes one number.
    api.said("aclrtGetDeviceCount", unsafe { (api.acl.aclrtGetDeviceCount)(&mut count) }).map(|()| count)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chip() -> Chip {
        Chip { soc: "Ascend910B1".to_owned(), architecture: 2201, vector_cores: 48, buffer_bytes: 188_160 }
    }

    fn facts(soc: &str, architecture: u32, cores: u32, bytes: u64) -> Facts {
        Facts {
            soc: soc.to_owned(),
            architecture: Some(architecture),
            vector_cores: Some(cores),
            buffer_bytes: Some(bytes),
            cache_bytes: None,
        }
    }

    #[test]
    fn code_runs_where_there_is_as_much_as_it_was_made_for() {
        assert_eq!(facts("Ascend910B1", 2201, 48, 196_608).run(&chip()), Ok(()));
        assert_eq!(facts("Ascend910_9391", 2201, 48, 196_608).run(&chip()), Ok(()));
        let said = |facts: Facts| facts.run(&chip()).expect_err("it lacks something");
        assert!(said(facts("Ascend910B3", 2201, 40, 196_608)).contains("40 vector cores"));
        assert!(said(facts("Ascend310P3", 2002, 48, 262_144)).contains("architecture 2002"));
        assert!(said(facts("Ascend910B1", 2201, 48, 100_000)).contains("100000 bytes of unified buffer"));
    }

    #[test]
    fn a_runtime_that_says_only_the_name_is_taken_at_its_word() {
        let only =
            |soc: &str| Facts { architecture: None, vector_cores: None, buffer_bytes: None, ..facts(soc, 1, 1, 1) };
        assert_eq!(only("Ascend910B1").run(&chip()), Ok(()));
        assert!(only("Ascend910B3").run(&chip()).is_err());
    }
}
