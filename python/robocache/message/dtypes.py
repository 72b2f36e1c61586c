"""Names of element types."""

#: A configuration's name of an element type to the name that array libraries give it.
ARRAY_NAMES = {
    "f32": "float32",
    "f16": "float16",
    "bf16": "bfloat16",
    "u8": "uint8",
    "i32": "int32",
}
