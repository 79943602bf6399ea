//! How fast chips are said to be, for estimates: documented or assumed, never measured.

use super::chip::Chip;

/// Figures of a chip.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Speed {
    /// Bytes per second between memory and the chip, where the vendor's documents state them.
    pub bandwidth: Option<f64>,
    /// Megahertz of its cores, of the vendor's platform descriptions.
    pub mhz: f64,
}

/// Bytes per second of HBM of 910 chips with 192 MiB of L2, about.
const HBM: f64 = 1.6e12;

impl Chip {
    /// Its figures.
    pub fn speed(&self) -> Speed {
        // Of chips with less L2, and of other memories, no bandwidth is stated.
        let (bandwidth, mhz) = match self.name {
            "910b1" => (Some(HBM), 1850.0),
            "910b4" => (None, 1500.0),
            "910_9362" => (None, 1500.0),
            "310p3" => (None, 1060.0),
            "950" => (None, 1650.0),
            _ => (Some(HBM), 1800.0),
        };
        Speed { bandwidth, mhz }
    }
}
