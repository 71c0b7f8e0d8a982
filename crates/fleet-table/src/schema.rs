//! [`Table`]: names and columns of the tables.

use std::sync::Arc;

use parquet::schema::parser::parse_message_type;
use parquet::schema::types::TypePtr;

use crate::FleetTableError;

/// Table of a fleet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Table {
    /// Images (programs, libraries, kernels) that contain locations.
    Images,
    /// Names and lines of locations.
    Frames,
    /// Addresses in stacks.
    Locations,
    /// Stacks as lists of locations.
    Stacks,
    /// Windows of each host, with their amounts and quality.
    Hosts,
    /// Amounts by window, service, thread name, event and stack.
    Samples,
}

impl Table {
    /// Tables in write order, so that no file refers to rows not written yet.
    pub const ALL: [Table; 6] = [
        Table::Images,
        Table::Frames,
        Table::Locations,
        Table::Stacks,
        Table::Hosts,
        Table::Samples,
    ];

    /// Returns the name of the table, which is also its folder.
    pub fn name(self) -> &'static str {
        match self {
            Table::Images => "images",
            Table::Frames => "frames",
            Table::Locations => "locations",
            Table::Stacks => "stacks",
            Table::Hosts => "hosts",
            Table::Samples => "samples",
        }
    }

    /// Returns the columns as a message type in Parquet's notation.
    pub fn message_type(self) -> &'static str {
        match self {
            Table::Images => {
                "message images {
                    required fixed_len_byte_array(16) image_id;
                    optional binary build_id (STRING);
                    required binary path (STRING);
                    required binary kind (STRING);
                    required binary symbols (STRING);
                }"
            }
            Table::Frames => {
                "message frames {
                    required fixed_len_byte_array(16) location_id;
                    required int32 symbols_rank;
                    required group lines (LIST) {
                        repeated group list {
                            required group element {
                                optional binary function (STRING);
                                optional binary file (STRING);
                                optional int32 line;
                                required boolean inlined;
                            }
                        }
                    }
                }"
            }
            Table::Locations => {
                "message locations {
                    required fixed_len_byte_array(16) location_id;
                    required fixed_len_byte_array(16) image_id;
                    optional int64 address;
                }"
            }
            Table::Stacks => {
                "message stacks {
                    required fixed_len_byte_array(16) stack_id;
                    required group location_ids (LIST) {
                        repeated group list {
                            required fixed_len_byte_array(16) element;
                        }
                    }
                }"
            }
            Table::Hosts => {
                "message hosts {
                    required int64 window_start (TIMESTAMP(MICROS,true));
                    required int64 window_us;
                    required binary host (STRING);
                    required int64 samples;
                    required int64 complete;
                    required int64 lost;
                    required int64 throttled;
                    required int64 lost_windows;
                    required double rate_hz;
                    required double scale;
                    required binary agent_version (STRING);
                }"
            }
            Table::Samples => {
                "message samples {
                    required int64 window_start (TIMESTAMP(MICROS,true));
                    required int64 window_us;
                    required binary service (STRING);
                    optional binary version (STRING);
                    required binary host (STRING);
                    optional binary namespace (STRING);
                    optional binary pod (STRING);
                    optional binary container_id (STRING);
                    required binary comm (STRING);
                    required binary thread (STRING);
                    required binary event (STRING);
                    required binary unit (STRING);
                    required double period;
                    required fixed_len_byte_array(16) stack_id;
                    required int64 samples;
                    required int64 value;
                    required double scale;
                }"
            }
        }
    }

    /// Returns the columns as a Parquet schema.
    ///
    /// # Errors
    /// None in practice: tests check [`message_type`](Self::message_type).
    pub fn schema(self) -> Result<TypePtr, FleetTableError> {
        Ok(Arc::new(parse_message_type(self.message_type())?))
    }

    /// Returns the lookup column, which gets a bloom filter.
    pub fn key(self) -> Option<&'static str> {
        match self {
            Table::Stacks => Some("stack_id"),
            Table::Locations | Table::Frames => Some("location_id"),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_table_has_a_schema_of_its_name() {
        for table in Table::ALL {
            let schema = table.schema().unwrap();
            assert_eq!(schema.name(), table.name());
            let key = table.key();
            let columns = schema.get_fields();
            assert!(key.is_none_or(|key| columns.iter().any(|column| column.name() == key)));
        }
    }
}
