//! [`Scale`]: scale factor and unit of a PMU's event.

/// Factor and unit of a PMU's event, from the files `NAME.scale` and `NAME.unit` in sysfs.
///
/// Counts stay unscaled; multiply them for display.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Bits of the factor, so that events can be compared.
    factor: u64,
    unit: String,
}

/// Maximum characters of a displayed unit.
const LONGEST_UNIT: usize = 16;

impl Scale {
    /// Parses the two files; `None` if neither has a value. A factor that is not a positive number
    /// becomes 1.
    pub(crate) fn parse(factor: Option<&str>, unit: Option<&str>) -> Option<Scale> {
        if factor.is_none() && unit.is_none() {
            return None;
        }
        let factor = factor.and_then(|text| text.trim().parse::<f64>().ok());
        let factor = factor.filter(|factor| factor.is_finite() && *factor > 0.0);
        let printable = |c: &char| !c.is_control();
        let unit = unit.unwrap_or_default().trim().chars().filter(printable);
        Some(Scale {
            factor: factor.unwrap_or(1.0).to_bits(),
            unit: unit.take(LONGEST_UNIT).collect(),
        })
    }

    /// Returns the factor.
    pub fn factor(&self) -> f64 {
        f64::from_bits(self.factor)
    }

    /// Returns the unit of scaled counts, such as `Joules`; may be empty.
    pub fn unit(&self) -> &str {
        &self.unit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scale_has_a_factor_and_a_unit() {
        let energy = Scale::parse(Some("2.3283064365386962890625e-10\n"), Some("Joules")).unwrap();
        assert_eq!((energy.factor(), energy.unit()), (2f64.powi(-32), "Joules"));
        let unit = Scale::parse(None, Some("MiB")).unwrap();
        assert_eq!((unit.factor(), unit.unit()), (1.0, "MiB"));
        for wrong in ["", "x", "0", "-1", "inf", "nan"] {
            assert_eq!(Scale::parse(Some(wrong), None).unwrap().factor(), 1.0);
        }
        assert_eq!(Scale::parse(None, None), None);
    }
}
