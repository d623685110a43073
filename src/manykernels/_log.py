"""The one logger of the library, "manykernels": silent unless a program gives it a handler."""

import logging

logger = logging.getLogger("manykernels")
logger.addHandler(logging.NullHandler())
