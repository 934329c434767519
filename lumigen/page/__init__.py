"""One page of a compilation, or of a search: entries, the flow of kernels, and of each kernel every form on the way.

Promises a file that needs nothing else, no network and no other file, that holds whatever stands in names and sources
as text, and that has the same bytes for the same compilation.
"""

from lumigen.page.build import page_of, write_page
from lumigen.page.tuning import tuning_page

__all__ = ["page_of", "tuning_page", "write_page"]
