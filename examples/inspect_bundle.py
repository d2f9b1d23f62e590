"""What a bundle says about its model, read from the file alone."""

from litert_lm.bundle import open_bundle
from litert_lm.bundle.tflite import read_tflite
from litert_lm.hub import resolve_model


def main() -> None:
    path = resolve_model("smollm2-135m-instruct")
    with open_bundle(path) as bundle:
        for section in bundle.sections:
            print(f"{section.type_name:24} {section.size / 1e6:8.2f} MB")
        print("context:", bundle.llm_metadata.max_num_tokens, "tokens")
        model = read_tflite(bundle.read(bundle.models["prefill_decode"]), str(path))
        for signature in model.signatures:
            print(f"{signature.key:24} {len(signature.inputs)} inputs")


if __name__ == "__main__":
    main()
