"""Model files: .litertlm and .task in, .litertlm out."""

from litert_lm.bundle.bundle import Bundle, TokenizerData
from litert_lm.bundle.open import open_bundle
from litert_lm.bundle.sections import Section, SectionType

__all__ = ["Bundle", "Section", "SectionType", "TokenizerData", "open_bundle"]
