"""Decodes OpenTelemetry profiles with the published proto, checks its rules, and prints samples by function.

The rules are from comments in opentelemetry/proto/profiles/v1development/profiles.proto. profcheck of OpenTelemetry's
profiling group checks them too.
"""

import gzip
import json
import sys

from google.protobuf.unknown_fields import UnknownFieldSet
from opentelemetry.proto.collector.profiles.v1development import profiles_service_pb2 as service

request = service.ExportProfilesServiceRequest()
request.ParseFromString(gzip.open(sys.argv[1]).read())
words = request.dictionary


def no_unknown(message):
    assert not UnknownFieldSet(message), f"unknown fields in {message.DESCRIPTOR.name}"
    for field, value in message.ListFields():
        if field.message_type is not None:
            for one in value if field.is_repeated else [value]:
                no_unknown(one)


no_unknown(request)
tables = {
    "mapping": words.mapping_table,
    "location": words.location_table,
    "function": words.function_table,
    "link": words.link_table,
    "string": words.string_table,
    "attribute": words.attribute_table,
    "stack": words.stack_table,
}
used = {name: {0} for name in tables}


def use(table, index):
    assert 0 <= index < len(tables[table]), f"{table} {index} of {len(tables[table])}"
    used[table].add(index)


def use_attributes(indices):
    keys = []
    for index in indices:
        use("attribute", index)
        assert index > 0
        keys.append(words.attribute_table[index].key_strindex)
    assert len(keys) == len(set(keys)), "an attribute key stands twice"


for name, table in tables.items():
    assert len(table) > 0, f"no {name} 0"
    bytes_of = [row.encode() if isinstance(row, str) else row.SerializeToString(deterministic=True) for row in table]
    assert bytes_of[0] == b"", f"{name} 0 is not empty"
    assert len(bytes_of) == len(set(bytes_of)), f"a {name} stands twice"
for mapping in words.mapping_table:
    use("string", mapping.filename_strindex)
    use_attributes(mapping.attribute_indices)
for function in words.function_table:
    for index in (function.name_strindex, function.system_name_strindex, function.filename_strindex):
        use("string", index)
for location in words.location_table:
    use("mapping", location.mapping_index)
    use_attributes(location.attribute_indices)
    for line in location.lines:
        use("function", line.function_index)
for stack in words.stack_table:
    for index in stack.location_indices:
        assert index > 0
        use("location", index)
for attribute in words.attribute_table:
    use("string", attribute.key_strindex)
    use("string", attribute.unit_strindex)


def name_of(line):
    return words.string_table[words.function_table[line.function_index].name_strindex]


functions, samples, events, times = {}, 0, [], []
for resource in request.resource_profiles:
    assert resource.HasField("resource")
    keys = [attribute.key for attribute in resource.resource.attributes]
    assert "service.name" in keys and len(keys) == len(set(keys))
    for scope in resource.scope_profiles:
        assert scope.HasField("scope")
        for profile in scope.profiles:
            assert profile.HasField("sample_type")
            for kind in (profile.sample_type, profile.period_type):
                use("string", kind.type_strindex)
                use("string", kind.unit_strindex)
            events.append(words.string_table[profile.sample_type.type_strindex])
            times.append([profile.time_unix_nano, profile.duration_nano])
            use_attributes(profile.attribute_indices)
            for sample in profile.samples:
                use("stack", sample.stack_index)
                use("link", sample.link_index)
                use_attributes(sample.attribute_indices)
                # Samples of one shape: one value each, without timestamps.
                assert len(sample.values) == 1 and not sample.timestamps_unix_nano
                stack = words.stack_table[sample.stack_index].location_indices
                lines = [line for index in stack for line in words.location_table[index].lines]
                names = [name_of(line) for line in lines]
                samples += sample.values[0]
                for name in set(names):
                    functions.setdefault(name, [0, 0])[1] += sample.values[0]
                if names:
                    functions[names[0]][0] += sample.values[0]
for name, table in tables.items():
    orphans = set(range(len(table))) - used[name]
    assert not orphans, f"{name}: nobody uses {sorted(orphans)[:5]}"
json.dump({"samples": samples, "events": events, "functions": functions, "times": times}, sys.stdout)
