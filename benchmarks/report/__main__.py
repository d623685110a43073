"""Make the report anew of the records that there are."""

from .write import write

if __name__ == "__main__":
    write()
