"""What the documentation site has beside the pages in docs/: generators of pages, modules with a function `pages`.

    def pages() -> Iterator[tuple[str, str | bytes]]:
        yield "gallery/trees.md", "# Trees ..."     # a path under docs/ that is no file there, and what it holds

`hook.py` lists the generators and hands their pages to MkDocs. Links between pages are relative, as in docs/.
"""
