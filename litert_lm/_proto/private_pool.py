"""A descriptor pool of our own, for schemas that other packages may load as well.

Python's default pool takes each full message name once per process. A server and a
client of the same schema, each with code of its own, could not be imported together.
"""

from __future__ import annotations

from google.protobuf import descriptor_pool, struct_pb2

POOL = descriptor_pool.DescriptorPool()
POOL.AddSerializedFile(struct_pb2.DESCRIPTOR.serialized_pb)
