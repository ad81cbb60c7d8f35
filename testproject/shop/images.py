"""Pictures: thumbnails of any, and painted ones for the demo."""

from io import BytesIO

from PIL import Image, ImageDraw


def make_thumbnail(image: bytes, width: int, height: int) -> bytes:
    """The picture as a PNG that fits into width x height pixels, its proportions kept."""
    with Image.open(BytesIO(image)) as picture:
        small = picture.convert("RGB")
        small.thumbnail((width, height))
        return _png(small)


def paint(number: int, width: int = 1200, height: int = 900) -> bytes:
    """A picture of some mug in front of some wall; the number decides the colours."""
    wall, mug = (number * 47 % 360, number * 101 % 360)
    picture = Image.new("RGB", (width, height), f"hsl({wall}, 45%, 82%)")
    draw = ImageDraw.Draw(picture)
    draw.rectangle((0, height * 3 // 4, width, height), fill=f"hsl({wall}, 30%, 45%)")
    colour = f"hsl({mug}, 60%, 50%)"
    draw.ellipse((650, 350, 900, 650), outline=colour, width=45)
    draw.rounded_rectangle((400, 280, 760, 780), radius=60, fill=colour)
    draw.ellipse((400, 230, 760, 330), fill=f"hsl({mug}, 60%, 30%)")
    return _png(picture)


def _png(picture: Image.Image) -> bytes:
    file = BytesIO()
    picture.save(file, "PNG")
    return file.getvalue()
